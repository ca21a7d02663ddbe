"""The metrics endpoint of a daemon, and its options: who may ask, what they get, what they cannot harm."""

import io
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format
from rich.console import Console, RenderableType

from scrtune.cli import main as cli
from scrtune.cli import monitoring_options
from scrtune.cli.text import tables as show
from scrtune.client.paths import JobPaths
from scrtune.daemon.monitor import endpoint, monitoring
from scrtune.daemon.monitor.address import Address, address_of
from scrtune.daemon.monitor.monitoring import Monitor
from scrtune.daemon.monitor.snapshot import OTHERS, bounded
from scrtune.daemon.options import Monitoring
from scrtune.daemon.views import MonitorView
from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.events import Event, EventsLost, SettingsObserved
from scrtune.intents.pipeline import Pipeline

WaitUntil = Callable[[Callable[[], object]], None]
BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
HEAVY = {"prometheus_client", "tensorboardX", "google.protobuf", "wsgiref", "http.server"}
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def job() -> Iterator[Event]:
    """Ten steps of a second, of which one takes two, and a checkpoint of half a second."""
    yield JobStarted(time_s=BEGUN_S, ranks=4, nodes=4)
    yield SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE"},
        sources={"SCR_COPY_TYPE": "user config"},
        engine="embedded",
        ranks=4,
        nodes=4,
        floor="XOR",
    )
    now = BEGUN_S
    for step in range(10):
        end_s = now + (2 if step == 4 else 1)
        yield StepCompleted(step=step, start_s=now, end_s=end_s)
        now = end_s
    yield FlushCompleted(dataset=1, start_s=now + 0.25, end_s=now + 0.5, generation=1, bytes=2**20)
    yield OutputCompleted(
        dataset=1,
        name="c1",
        start_s=now,
        end_s=now + 0.5,
        generation=1,
        bytes=2**20,
        files=4,
        write_s=0.25,
        flush_s=0.25,
        flush_due=True,
    )
    yield EventsLost(source="emit:n1:7: dropped, its queue was full", count=5)


def url_of(daemon: Any, wait_until: WaitUntil) -> str:
    """Where the daemon says it serves metrics."""
    wait_until(lambda: "metrics at http" in daemon.log())
    return re.findall(r"metrics at (http://\S+)", daemon.log())[-1]


def scraped(url: str, accept: str = "text/plain") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310  our own daemon
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return answer.read().decode()


def samples(text: str, parse: Any = text_format) -> dict[tuple[str, ...], float]:
    """Values by name and label values."""
    return {
        (each.name, *each.labels.values()): each.value for family in parse(text) for each in family.samples
    }


def asked_unix(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(path))
        asker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: asker.recv(65536), b""))


def words(shown: RenderableType) -> str:
    """What a wide terminal shows, spaces and line breaks made one."""
    console = Console(file=io.StringIO(), width=1000, markup=False)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def told(daemon: Any) -> None:
    events = list(job())
    daemon.tell(*events)
    daemon.until_events(len(events))


def test_a_scrape_says_where_the_time_went_and_adds_up(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0", "--monitor-window", "1m", "--monitor-window", "1h")
    url = url_of(daemon, wait_until)
    told(daemon)
    wait_until(lambda: "scrtune_checkpoints_total 1.0" in scraped(url))
    found = samples(scraped(url))
    buckets = {key[1]: value for key, value in found.items() if key[0] == "scrtune_time_seconds"}
    assert buckets["productive"] == pytest.approx(11)
    assert buckets["checkpoint_write"] == pytest.approx(0.25)
    assert sum(buckets.values()) == pytest.approx(found["scrtune_wall_seconds",])
    assert found["scrtune_goodput_ratio",] == pytest.approx(11 / found["scrtune_wall_seconds",])
    assert found["scrtune_window_goodput_ratio", "3600"] == found["scrtune_goodput_ratio",]
    assert found["scrtune_window_goodput_ratio", "60"] == 0
    assert found["scrtune_window_time_seconds", "other", "60"] == pytest.approx(60)
    assert found["scrtune_steps_total",] == 10
    assert found["scrtune_last_step",] == 9
    assert found["scrtune_ideal_step_seconds",] == pytest.approx(1)
    assert found["scrtune_step_deviation_seconds",] == pytest.approx(0.1)
    assert found["scrtune_last_checkpoint_blocking_seconds",] == pytest.approx(0.5)
    assert found["scrtune_last_checkpoint_flush_seconds",] == pytest.approx(0.25)
    assert found["scrtune_last_checkpoint_size_bytes",] == 2**20
    assert found["scrtune_settings_generation",] == 1
    assert found["scrtune_decisions", "required"] == 1
    assert found["scrtune_events_lost_total", "emit:n1:7: dropped, its queue was full"] == 5


def test_the_answer_is_open_metrics_for_those_who_ask_for_it(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "127.0.0.1:0")
    url = url_of(daemon, wait_until)
    told(daemon)
    wait_until(lambda: "scrtune_checkpoints_total 1.0" in scraped(url))
    assert samples(scraped(url, OPEN_METRICS), open_metrics)["scrtune_checkpoints_total",] == 1
    families = {family.name: family for family in open_metrics(scraped(url, OPEN_METRICS))}
    assert families["scrtune_time_seconds"].type == "gauge"
    assert families["scrtune_steps"].type == "counter"
    assert all(family.documentation for family in families.values())


def test_before_the_job_says_anything_there_is_no_goodput_to_alarm_anyone(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start("--metrics", "0")
    url = url_of(daemon, wait_until)
    wait_until(lambda: "scrtune_events_total" in scraped(url))
    found = samples(scraped(url))
    assert found["scrtune_job_info", "", daemon.paths.host, "j"] == 1
    assert ("scrtune_goodput_ratio",) not in found


def test_the_socket_in_the_run_directory_is_the_users_alone_and_goes_with_the_daemon(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start("--metrics", "unix")
    path = daemon.paths.root / "metrics.sock"
    wait_until(lambda: "metrics at" in daemon.log())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told(daemon)
    wait_until(lambda: b"scrtune_goodput_ratio" in asked_unix(path))
    assert daemon.end(signal.SIGTERM) == 0
    assert not path.exists()


def test_the_socket_of_a_daemon_that_was_killed_is_taken_over(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    path = real_daemon.paths.root / "metrics.sock"
    real_daemon.start("--metrics", "unix")
    wait_until(path.exists)
    real_daemon.end(signal.SIGKILL)
    assert path.exists()
    daemon = real_daemon.start("--metrics", "unix")
    wait_until(lambda: daemon.log().count("metrics at") == 2)
    assert asked_unix(path).startswith(b"HTTP/1.0 200 OK")


def test_who_asks_for_nothing_can_look_all_the_same(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start()
    path = daemon.paths.root / "metrics.sock"
    wait_until(path.exists)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert daemon.view("status").monitors == (MonitorView(name=f"metrics at unix:{path}"),)
    assert "metrics at" not in daemon.log()  # nobody has asked
    told(daemon)
    for _ in range(2):
        assert b"scrtune_checkpoints_total 1.0" in asked_unix(path)
        assert b"scrtune_steps_total 10.0" in asked_unix(path)
        assert b"scrtune_last_step" not in asked_unix(path)  # nobody has looked at steps one by one
    daemon.tell(StepCompleted(step=10, start_s=BEGUN_S + 12, end_s=BEGUN_S + 13))
    wait_until(lambda: b"scrtune_last_step 10.0" in asked_unix(path))
    assert f"metrics at unix:{path}" in daemon.log()
    assert daemon.end(signal.SIGTERM) == 0
    assert not path.exists()
    assert "Traceback" not in daemon.log()


def test_a_daemon_that_nobody_asks_takes_over_from_one_that_was_killed_and_leaves_nothing(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    path = real_daemon.paths.root / "metrics.sock"
    real_daemon.start()
    wait_until(path.exists)
    real_daemon.end(signal.SIGKILL)
    assert path.exists()
    daemon = real_daemon.start()
    (monitor,) = daemon.view("status").monitors
    assert monitor.failure == ""
    assert daemon.end(signal.SIGTERM) == 0
    assert not path.exists()


def test_off_is_off(real_daemon: Any) -> None:
    daemon = real_daemon.start("--metrics", "off")
    assert daemon.view("status").monitors == ()
    assert not (daemon.paths.root / "metrics.sock").exists()


def test_a_socket_that_nobody_asks_at_loads_nothing_and_has_no_thread(tmp_path: Path) -> None:
    code = (
        "import sys, threading\n"
        "from scrtune.client.paths import JobPaths\n"
        "from scrtune.daemon.monitor.monitoring import Monitor\n"
        "from scrtune.daemon.options import Monitoring\n"
        "from scrtune.intents.pipeline import Pipeline\n"
        "paths = JobPaths.of('j', host='n', base=__import__('pathlib').Path(sys.argv[1])).create()\n"
        "monitor = Monitor(Monitoring(), paths, Pipeline())\n"
        "monitor.start()\n"
        "monitor.tick(1.0, 1.0)\n"
        "print(paths.root / 'metrics.sock', (paths.root / 'metrics.sock').is_socket())\n"
        "print(threading.active_count(), *sys.modules)\n"
        "monitor.end(1.0)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    where, counted = ran.stdout.splitlines()
    assert where.endswith("metrics.sock True")
    threads, *modules = counted.split()
    assert threads == "1"
    assert HEAVY.isdisjoint(modules)


def test_what_lies_where_the_socket_should_is_left_alone(real_daemon: Any, wait_until: WaitUntil) -> None:
    place = real_daemon.paths.base.parent / "precious"
    place.write_text("mine")
    daemon = real_daemon.start("--metrics", f"unix:{place}")
    wait_until(lambda: "no metrics at" in daemon.log())
    assert daemon.end(signal.SIGTERM) == 0
    assert place.read_text() == "mine"


def test_another_daemons_socket_is_left_to_it(real_daemon: Any, wait_until: WaitUntil) -> None:
    place = real_daemon.paths.base.parent / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place))
        other.listen()
        daemon = real_daemon.start("--metrics", f"unix:{place}")
        wait_until(lambda: "no metrics at" in daemon.log())
        assert daemon.end(signal.SIGTERM) == 0
        assert place.exists()


def test_an_occupied_port_is_told_and_harms_nothing(real_daemon: Any, wait_until: WaitUntil) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        daemon = real_daemon.start("--metrics", str(port))
        wait_until(lambda: f"no metrics at 127.0.0.1:{port}: " in daemon.log())
        told(daemon)
        status = daemon.view("status")
        assert status.checkpoints == 1
        (monitor,) = status.monitors
        assert monitor.name == f"metrics at 127.0.0.1:{port}"
        assert monitor.failure.endswith("Address already in use; it is tried again")
        assert f"monitors fail {monitor.name}: {monitor.failure}" in words(show.status(status))
        assert f"scrtune: {monitor.name}: {monitor.failure}" in show.summary(status)
        assert daemon.end(signal.SIGTERM) == 0
    assert "Traceback" not in daemon.log()


def test_scrapers_that_say_nothing_or_never_read_hold_up_neither_the_daemon_nor_its_end(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start("--metrics", "0")
    url = url_of(daemon, wait_until)
    where = ("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]))
    silent = [socket.create_connection(where) for _ in range(20)]
    for each in silent[:4]:
        each.sendall(b"GET /metrics HTTP/1.1\r\n")
    told(daemon)
    assert daemon.view("status").checkpoints == 1
    wait_until(lambda: answers(url))  # those who say nothing are hung up on
    assert daemon.end(signal.SIGTERM) == 0
    assert "Traceback" not in daemon.log()
    for each in silent:
        each.close()


def test_scrapers_that_say_a_byte_now_and_then_shut_no_other_out(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    daemon = real_daemon.start("--metrics", "0")
    url = url_of(daemon, wait_until)
    where = ("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]))
    slow = [socket.create_connection(where) for _ in range(8)]
    for each in slow:
        each.sendall(b"GET /metrics HTTP/1.1\r\n")
    hung_up_on: set[socket.socket] = set()

    def drip() -> bool:
        for each in slow:
            try:
                each.sendall(b"X")
            except OSError:
                hung_up_on.add(each)
        return len(hung_up_on) == len(slow)

    wait_until(drip)
    assert answers(url)
    assert daemon.end(signal.SIGTERM) == 0
    for each in slow:
        each.close()


def test_a_port_that_becomes_free_is_taken_and_the_failure_is_over(
    monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(endpoint, "_RETRY_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        served = endpoint.Endpoint(address_of(str(port), Path()))
        wait_until(lambda: served.failure)
    wait_until(lambda: not served.failure)
    assert served.name == f"metrics at http://127.0.0.1:{port}/metrics"
    served.finish()
    assert served.join(30)


def test_status_says_where_a_job_can_be_watched(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0", "--csv", str(real_daemon.paths.base.parent / "g.csv"))
    url = url_of(daemon, wait_until)
    names = f"rows in {daemon.paths.base.parent}/g.csv metrics at {url}"
    assert f"monitors {names}" in words(show.status(daemon.view("status")))
    assert "monitors fail" not in words(show.status(daemon.view("status")))


def answers(url: str) -> bool:
    try:
        return bool(scraped(url))
    except (OSError, urllib.error.URLError):
        return False


def test_a_daemon_that_is_restarted_goes_on_where_it_was(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "unix")
    told(daemon)
    daemon.end(signal.SIGKILL)
    daemon.start("--metrics", "unix")
    path = daemon.paths.root / "metrics.sock"
    wait_until(lambda: daemon.log().count("metrics at") == 2 and b"goodput_ratio" in asked_unix(path))
    found = samples(asked_unix(path).partition(b"\r\n\r\n")[2].decode())
    assert found["scrtune_last_step",] == 9
    assert found["scrtune_ideal_step_seconds",] == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", Address(host="127.0.0.1", port=9464)),
        ("127.0.0.1:9464", Address(host="127.0.0.1", port=9464)),
        ("0.0.0.0:9464", Address(host="0.0.0.0", port=9464)),  # noqa: S104
        ("[::1]:9464", Address(host="::1", port=9464)),
        ("node17:0", Address(host="node17", port=0)),
        ("unix", Address(path=Path("/run/j/metrics.sock"))),
        ("unix:/tmp/m", Address(path=Path("/tmp/m"))),  # noqa: S108
    ],
)
def test_an_address_is_a_port_of_this_node_or_says_itself_who_may_reach_it(
    text: str, address: Address
) -> None:
    assert address_of(text, Path("/run/j")) == address
    assert address_of(str(address), Path("/run/j")) == address


@pytest.mark.parametrize(
    "text", [":9464", "127.0.0.1", "127.0.0.1:65536", "::1:9464", "a b:1", "unix:/" + 200 * "x"]
)
def test_what_is_no_address_is_a_wrong_command_line(text: str) -> None:
    ran = CliRunner().invoke(cli.main, ["daemon", "--metrics", text])
    assert ran.exit_code == 2
    assert "--metrics" in ran.output


def test_an_address_that_others_can_reach_is_told(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0.0.0.0:0")
    wait_until(lambda: "whoever reaches this node may read them" in daemon.log())


@pytest.mark.parametrize(
    "wanted",
    [
        Monitoring(metrics="127.0.0.1:9464"),
        Monitoring(metrics="off"),
        Monitoring(metrics="off", csv=Path("/d/g.csv")),
        Monitoring(tensorboard=Path("/d/tb"), csv=Path("/d/g.csv"), every_s=2.5, windows_s=(60, 7200)),
    ],
)
def test_what_a_job_was_started_with_reaches_its_daemons(wanted: Monitoring) -> None:
    reached = []
    command = monitoring_options.monitoring_options(lambda **given: reached.append(given["monitoring"]))
    click_command = cli.click.command()(command)
    CliRunner().invoke(click_command, wanted.options(), catch_exceptions=False)
    assert reached == [wanted]


def test_without_options_there_are_none_to_pass_on() -> None:
    assert Monitoring().options() == []


def test_a_library_that_is_not_installed_is_told_and_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_options, "find_spec", lambda _name: None)
    told = list(monitoring_options.missing(Monitoring(metrics="1", tensorboard=Path("tb"))))
    assert [text.split()[0] for text in told] == ["--metrics", "--tensorboard"]
    assert all("pip install 'scrtune[monitoring]'" in text for text in told)
    for silent in (Monitoring(), Monitoring(csv=Path("g.csv")), Monitoring(metrics="off")):
        assert list(monitoring_options.missing(silent)) == []


def test_where_its_library_is_not_installed_there_is_no_socket_and_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(monitoring, "find_spec", lambda _name: None)
    paths = JobPaths.of("j", base=tmp_path / "r").create()
    watched = Monitor(Monitoring(), paths, Pipeline())
    watched.start()
    assert watched.views() == ()
    assert not (paths.root / "metrics.sock").exists()
    assert caplog.messages == []


def test_nobody_pays_for_what_is_not_asked_for() -> None:
    code = "import sys, scrtune.cli.main, scrtune.daemon.loop; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(ran.stdout.split())


def test_a_command_that_reckons_nothing_loads_no_arithmetic() -> None:
    code = (
        "import sys; from scrtune.cli.main import main; "
        "main(['--version'], standalone_mode=False); print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"scrtune.cli.commands.interval", "scrtune.cli.commands.goodput"} <= set(ran.stdout.split())
    assert {"numpy", "scipy", "matplotlib", "sklearn"}.isdisjoint(ran.stdout.split())


class Watcher:
    """Stands for a thread that gets snapshots."""

    name = "a watcher"

    def __init__(self, *_: Any) -> None:
        self.is_asked = True
        self.given: list[Any] = []

    def give(self, snapshot: Any) -> None:
        self.given.append(snapshot)

    def finish(self) -> None:
        self.is_asked = False

    def join(self, _timeout_s: float) -> bool:
        return False


def monitor(options: Monitoring, pipeline: Pipeline) -> Monitor:
    return Monitor(options, JobPaths.of("j"), pipeline)


def test_a_state_that_cannot_be_shown_is_told_once_and_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(monitoring, "Endpoint", Watcher)
    monkeypatch.setattr(Pipeline, "account", lambda *_: 1 / 0)
    watched = monitor(Monitoring(metrics="0"), Pipeline())
    watched.start()
    for second in range(3):
        watched.tick(10.0 * second, BEGUN_S)
    watched.end(BEGUN_S)
    assert [record.message for record in caplog.records] == [
        "the job's state cannot be shown to its monitors: a bug; all else goes on",
        "a watcher: the last update is not done in time and is given up",
    ]


def test_a_daemon_that_can_start_no_more_threads_runs_unwatched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    watched = monitor(Monitoring(csv=Path("g.csv")), Pipeline())
    watched.start()
    watched.tick(1.0, BEGUN_S)
    watched.end(BEGUN_S)
    assert caplog.messages == ["the job is not watched as was asked: can't start new thread"]


def test_a_first_scrape_for_which_no_thread_can_be_started_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = JobPaths.of("j", base=tmp_path / "r").create()
    watched = Monitor(Monitoring(), paths, Pipeline())
    watched.start()

    def refused(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(paths.root / "metrics.sock"))
        watched.tick(1.0, BEGUN_S)
        assert [each.failure for each in watched.views()] == ["can't start new thread"]
        watched.tick(2.0, BEGUN_S)
    watched.end(BEGUN_S)
    assert not (paths.root / "metrics.sock").exists()


def test_nobody_asks_and_no_snapshot_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "Endpoint", Watcher)
    watched = monitor(Monitoring(metrics="0"), Pipeline())
    watched.start()
    sink: Any = watched._endpoint
    sink.is_asked = False
    watched.tick(1.0, BEGUN_S)
    assert sink.given == []
    sink.is_asked = True
    for tenth in range(20, 35):  # a second and a half of ticks, with somebody asking all the time
        watched.tick(tenth / 10, BEGUN_S)
    assert len(sink.given) == 2


def test_a_flood_of_names_does_not_become_a_flood_of_metrics() -> None:
    counts = {f"sender {number}": 1 for number in range(1000)}
    assert len(bounded(counts)) == 101
    assert bounded(counts)[OTHERS] == 900
