"""The page of a job with a daemon: settings and why, intents, what to run it with, how often to save."""

import re
import subprocess
from html import unescape
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from scrtune.cli.html.page import page
from scrtune.cli.main import main
from scrtune.cli.views.tuned_job import TunedJob
from scrtune.daemon.journal.journal import Journal
from scrtune.daemon.views import ClusterView, MemberView, explain_view, status_view
from scrtune.intents.events import LeaderChanged, NodeObserved, ProcessUse
from scrtune.intents.tune.gains import gains, together

from ...support.report_job import browse, checkpointed, reported, section, write_log
from ...support.simulated_job import CACHED, Job

RECOMMEND = {"tuning": False, "recommend": True}


def page_of(job: Job, directory: Path) -> str:
    """The page of what a daemon left of `job`, as the command writes it."""
    (directory / "journal").unlink(missing_ok=True)
    journal = Journal(directory / "journal")
    for now, event in job.journal:
        journal.append(now, event)
    journal.flush(job.now)
    journal.close()
    return written(directory / "journal", directory)


def written(log: Path, directory: Path) -> str:
    page = directory / "out.html"
    result = CliRunner().invoke(main, ["goodput", str(log), "--html", str(page)])
    assert (result.exit_code, result.output) == (0, "")
    return page.read_text(encoding="utf-8")


def exported(text: str) -> dict[str, str]:
    """What a shell has after it was given what is to be copied."""
    (block,) = re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)
    names = re.findall(r"export (\w+)=", block)
    command = f"{unescape(block)}\nfor name in {' '.join(names)}; do echo $name=${{!name}}; done"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    return dict(line.split("=", 1) for line in ran.stdout.splitlines())


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, str]:
    """A job that was tuned, and its page."""
    job = Job({**CACHED, "SCR_COPY_TYPE": "XOR", "SCR_FLUSH_ASYNC": 0}).checkpoints(20)
    assert job.in_force["SCR_FLUSH_ASYNC"] == 1, "else there is nothing to show"
    return job, page_of(job, tmp_path_factory.mktemp("tuned"))


def test_each_setting_is_there_with_the_users_value_and_the_reason(tuned: tuple[Job, str]) -> None:
    job, text = tuned
    rows = {row[0]: row[1:] for row in section(text, "Settings")}
    assert rows["SCR_FLUSH_ASYNC"][:3] == ["0", "user config", "1"]
    assert rows["SCR_COPY_TYPE"][1] == "user config"
    assert {name: row[2] for name, row in rows.items()} == {
        name: str(value) or '""' for name, value in job.pipeline.tuner.settings.items() if name in rows
    }
    why = {row[0]: row[4] for row in section(text, "Why each lever is as it is")}
    assert why == {lever.name: lever.why for lever in job.pipeline.levers()}
    assert "No change" not in text


def test_changes_and_what_they_gained_are_there_as_in_explain_and_goodput(tuned: tuple[Job, str]) -> None:
    job, text = tuned
    found = [each for each in gains(job.pipeline.decisions) if each.gain is not None]
    rows = section(text, "What each decision gained (seconds of a checkpoint&#39;s believed cost)")
    assert [row[1] for row in rows[:-1]] == [each.rule for each in found]
    assert rows[-1][-1] == f"{together(found).total_s:.3f}"
    assert "<h2>Decisions</h2>" in text


def test_what_is_to_be_copied_are_the_settings_for_good(tuned: tuple[Job, str]) -> None:
    job, text = tuned
    assert job.pipeline.knowledge is not None
    assert exported(text) == {name: str(value) for name, value in job.pipeline.knowledge.settings.items()}
    assert "was not tried" not in text


def test_intents_have_their_evidence(tuned: tuple[Job, str]) -> None:
    rows = {row[0]: row[1:] for row in section(tuned[1], "Intents")}
    assert rows.keys() == tuned[0].pipeline.intents.named().keys()
    for name, intent in tuned[0].pipeline.intents.named().items():
        assert rows[name][0] == " ".join(intent.sentence().split())
    assert "the application's checkpoints, " in rows["flush"][1]
    assert "confidence" in rows["flush"][1]


def test_the_interval_is_the_one_that_the_command_recommends(tuned: tuple[Job, str], tmp_path: Path) -> None:
    rows = section(tuned[1], "How long to compute between two checkpoints")
    page_of(tuned[0], tmp_path)
    told = CliRunner().invoke(main, ["goodput", str(tmp_path / "journal"), "--interval"]).output
    setting = re.search(r"SCR_CHECKPOINT_SECONDS=\d+", told)
    assert setting is not None
    assert setting[0] in tuned[1]
    assert rows[0][0] == "in use"
    assert all(row[1] in told for row in rows)


def test_a_job_in_which_nothing_changed_says_so_and_why(tmp_path: Path) -> None:
    silent = page_of(Job(CACHED), tmp_path)
    assert "No change: no checkpoint was measured." in silent
    assert "<pre>" not in silent
    watched = Job({**CACHED, "SCR_FLUSH_ASYNC": 0}, **RECOMMEND).checkpoints(6)
    text = page_of(watched, tmp_path)
    assert "Nothing is changed: --mode recommend." in text
    assert "It is proposed, and was not tried." in text
    assert exported(text)["SCR_FLUSH_ASYNC"] == "1"


def test_of_a_log_that_knows_no_settings_none_are_shown(tmp_path: Path) -> None:
    text = written(write_log(tmp_path / "log.jsonl", checkpointed()), tmp_path)
    for heading in ("Settings", "Intents", "Recommended environment"):
        assert f"<h2>{heading}</h2>" not in text
    assert "<h2>How long to compute between two checkpoints</h2>" in text


def test_the_nodes_of_a_job_are_there_as_in_status(tuned: tuple[Job, str], tmp_path: Path) -> None:
    assert "<h2>Cluster</h2>" not in tuned[1], "a job on one node"
    job = Job(CACHED)
    job.tell(LeaderChanged(host="n1", term=1, why="rank 0 speaks to this node"))
    for host, used in (("n1", 1.0), ("n2", 2.0), ("n3", 7.0)):
        use = ProcessUse(pid=1, cpus=(0,), cores_used=used)
        job.tell(NodeObserved(host=host, cpus=tuple(range(8)), processes=(use,)))
    job.tell(LeaderChanged(host="n2", term=2, why="node n1, which led, is lost"))
    text = page_of(job, tmp_path)
    assert re.search(r"node n2 since [\d:]+Z, because node n1, which led, is lost; 1 leader", text)
    assert re.search(r"Led by node n1 from [\d.]+ s \(rank 0 speaks to this node\), then n2 from", text)
    assert "node n3 has 1.0 spare cores" in text
    assert [row[0] for row in section(text, "Nodes")] == ["n3", "n2", "n1", "n"]


def test_of_a_job_that_runs_the_page_says_which_nodes_are_heard_and_which_are_lost() -> None:
    job = Job(CACHED)
    job.tell(LeaderChanged(host="n2", term=1, why="rank 0 speaks to this node"))
    lost, heard = MemberView(host="n1", age_s=60.0, is_lost=True), MemberView(host="n3", age_s=0.25)
    cluster = ClusterView(leader="n2", next_in_line="n3", members=(lost, heard))
    status = msgspec.structs.replace(
        status_view(job.pipeline, job.now, job_id="j", host="n2"), cluster=cluster
    )
    shown = TunedJob(explain=explain_view(job.pipeline), status=status)
    text = page(reported(checkpointed()), (), version="1", tuned=shown)
    assert "because rank 0 speaks to this node; next in line n3<" in text
    assert ">n3 0.2 s ago; lost: n1<" in text


WIDTHS = """<script>
const page = document.documentElement;
document.body.dataset.over = page.scrollWidth - page.clientWidth;
document.body.dataset.select = getComputedStyle(document.querySelector("pre")).userSelect;
</script></body>"""


@pytest.mark.parametrize("width", [500, 1400])
def test_a_browser_has_all_of_it_in_its_window(tuned: tuple[Job, str], tmp_path: Path, width: int) -> None:
    text = re.sub("<meta http-equiv.*?>", "", tuned[1])
    (tmp_path / "out.html").write_text(text.replace("</body>", WIDTHS), encoding="utf-8")
    dom = browse(tmp_path / "out.html", f"--window-size={width},1800", "--dump-dom")
    assert re.findall(r'data-over="(.*?)"', dom) == ["0"]
    assert re.findall(r'data-select="(.*?)"', dom) == ["all"]
