"""The metrics endpoint of a daemon, and its options: who may ask, what they get, what they cannot harm."""

import io
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format
from rich.console import Console

from scrtune.cli import main as cli
from scrtune.cli.blocks import Document
from scrtune.cli.commands.run import missing
from scrtune.cli.options import MonitoringOptions, command
from scrtune.cli.tables import job as tables
from scrtune.cli.tables.summary import summary
from scrtune.cli.terminal import Printable
from scrtune.daemon.options import Monitoring, address_of
from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.events import Event, EventsLost, SettingsObserved

WaitUntil = Callable[[Callable[[], object]], None]
BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def job() -> Iterator[Event]:
    """Ten steps of a second, of which one takes two, and a checkpoint of half a second."""
    yield JobStarted(time_s=BEGUN_S, ranks=4, nodes=4)
    yield SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0},
        sources={"SCR_COPY_TYPE": "user config", "SCR_CACHE_BYPASS": "user config"},
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


def words(shown: Document) -> str:
    """What a wide terminal shows, spaces and line breaks made one."""
    console = Console(file=io.StringIO(), width=1000, markup=False)
    console.print(Printable(shown))
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def feed(daemon: Any) -> None:
    events = list(job())
    daemon.tell(*events)
    daemon.until_events(len(events))


def test_a_scrape_says_where_the_time_went_and_adds_up(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0", "--monitor-window", "1m", "--monitor-window", "1h")
    url = url_of(daemon, wait_until)
    feed(daemon)
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
    assert found["scrtune_settings_generation",] >= 1
    assert found["scrtune_decisions", "required"] == 1
    assert found["scrtune_events_lost_total", "emit:n1:7: dropped, its queue was full"] == 5


def test_the_answer_is_open_metrics_for_those_who_ask_for_it(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "127.0.0.1:0")
    url = url_of(daemon, wait_until)
    feed(daemon)
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


def test_nothing_listens_unless_it_is_asked_for(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    assert daemon.view("status").monitors == ()
    sockets = {each.name for each in daemon.paths.root.iterdir() if each.is_socket()}
    assert sockets == {"events.sock", "control.sock"}
    listens = [
        each for each in psutil.Process(daemon.process.pid).net_connections() if each.status == "LISTEN"
    ]
    assert listens == []


def test_an_occupied_port_is_shown_and_taken_as_soon_as_it_is_free(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        daemon = real_daemon.start("--metrics", str(port))
        wait_until(lambda: f"metrics at {port}: " in daemon.log())
        feed(daemon)
        status = daemon.view("status")
        assert status.checkpoints == 1
        (monitor,) = status.monitors
        assert monitor.name == f"metrics at {port}"
        assert monitor.failure.endswith("Address already in use; it is tried again")
        assert f"monitors fail {monitor.name}: {monitor.failure}" in words(tables.status(status))
        assert f"scrtune: {monitor.name}: {monitor.failure}" in summary(status)
    assert samples(scraped(url_of(daemon, wait_until)))["scrtune_steps_total",] == 10
    wait_until(lambda: daemon.view("status").monitors[0].failure == "")
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
    feed(daemon)
    assert daemon.view("status").checkpoints == 1
    wait_until(lambda: "scrtune_checkpoints_total 1.0" in scraped(url))
    assert daemon.end(signal.SIGTERM) == 0
    assert "Traceback" not in daemon.log()
    for each in silent:
        each.close()


def test_status_says_where_a_job_can_be_watched(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0", "--csv", str(real_daemon.paths.base.parent / "g.csv"))
    url = url_of(daemon, wait_until)
    names = f"rows in {daemon.paths.base.parent}/g.csv metrics at {url}"
    assert f"monitors {names}" in words(tables.status(daemon.view("status")))
    assert "monitors fail" not in words(tables.status(daemon.view("status")))


def answers(url: str) -> bool:
    try:
        return bool(scraped(url))
    except (OSError, urllib.error.URLError):
        return False


def test_a_daemon_that_is_restarted_goes_on_where_it_was(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0")
    url_of(daemon, wait_until)
    feed(daemon)
    daemon.end(signal.SIGKILL)
    daemon.start("--metrics", "0")
    wait_until(lambda: daemon.log().count("metrics at http") == 2)
    url = url_of(daemon, wait_until)
    wait_until(lambda: "goodput_ratio" in scraped(url))
    found = samples(scraped(url))
    assert found["scrtune_last_step",] == 9
    assert found["scrtune_ideal_step_seconds",] == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),  # noqa: S104
        ("[::1]:9464", ("::1", 9464)),
        ("node17:0", ("node17", 0)),
    ],
)
def test_an_address_is_a_port_of_this_node_or_names_its_interface(text: str, address: object) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    "text", [":9464", "127.0.0.1", "127.0.0.1:65536", "::1:9464", "a b:1", "unix:/run/m"]
)
def test_what_is_no_address_is_a_wrong_command_line(text: str) -> None:
    ran = CliRunner().invoke(cli.main, ["daemon", "--metrics", text])
    assert ran.exit_code == 2
    assert "--metrics" in ran.output


def test_the_endpoint_serves_ipv6_too(real_daemon: Any, wait_until: WaitUntil) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").read_text():
        pytest.skip("no IPv6 here")
    url = url_of(real_daemon.start("--metrics", "[::1]:0"), wait_until)
    assert url.startswith("http://[::1]:")
    wait_until(lambda: "scrtune_job_info" in scraped(url))


def test_an_address_that_others_can_connect_to_is_logged(real_daemon: Any, wait_until: WaitUntil) -> None:
    daemon = real_daemon.start("--metrics", "0.0.0.0:0")
    wait_until(lambda: "everyone who can connect to this node may read them" in daemon.log())


@pytest.mark.parametrize(
    "wanted",
    [
        Monitoring(metrics="127.0.0.1:9464"),
        Monitoring(csv=Path("/d/g.csv")),
        Monitoring(tensorboard=Path("/d/tb"), csv=Path("/d/g.csv"), every_s=2.5, windows_s=(60, 7200)),
    ],
)
def test_what_a_job_was_started_with_reaches_its_daemons(wanted: Monitoring) -> None:
    reached = []

    @command(MonitoringOptions)
    def started(options: MonitoringOptions) -> None:
        reached.append(options.monitoring)

    CliRunner().invoke(started, wanted.options(), catch_exceptions=False)
    assert reached == [wanted]


def test_without_options_there_are_none_to_pass_on() -> None:
    assert Monitoring().options() == []


def test_a_library_that_is_not_installed_is_told_and_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("prometheus_client", "tensorboardX"):
        monkeypatch.setitem(sys.modules, library, None)
    told = list(missing(Monitoring(metrics="1", tensorboard=Path("tb"))))
    assert [text.split()[0] for text in told] == ["--metrics", "--tensorboard"]
    assert all("pip install 'scrtune[monitoring]'" in text for text in told)
    for silent in (Monitoring(), Monitoring(csv=Path("g.csv")), Monitoring(metrics="off")):
        assert list(missing(silent)) == []


def test_a_command_that_reckons_nothing_loads_no_arithmetic() -> None:
    code = (
        "import sys; from scrtune.cli.main import main; "
        "main(['goodput', '--help'], standalone_mode=False); print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"scrtune.cli.views.interval", "scrtune.cli.commands.goodput"} <= set(ran.stdout.split())
    assert {"numpy", "scipy", "matplotlib", "sklearn"}.isdisjoint(ran.stdout.split())
