"""Settings that a replayed trace shows, where no config file says what the job ran with."""

from pathlib import Path

import pytest
from msgspec import structs

from scrtune.cli.views.replay import replay_view
from scrtune.examples.study_traces import CACHE, PREFIX, RUNS, write_run
from scrtune.replay.run import JobShape, Replayed, replay_traces

SHAPE = JobShape(prefix=PREFIX, cache=CACHE, cores=16)
CONF = "SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\nSCR_FLUSH=1\nSCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with traces of jobs through the cache and past it."""
    directory = tmp_path_factory.mktemp("traces")
    for name in ("scr_pfs_one", "scr_ssd_nf", "scr_bypass"):
        write_run(directory / name, RUNS[name], 0)
    return directory


def chosen(replayed: Replayed) -> dict[str, object]:
    """Return what is not SCR's default of the settings that the rules begin with."""
    job = replayed.pipeline.job
    assert job is not None
    return {name: job.settings[name] for name, source in job.sources.items() if source != "default"}


def test_what_was_written_to_the_cache_and_flushed_shows_how_the_job_ran(traces: Path) -> None:
    replayed = replay_traces([traces / "scr_pfs_one"], SHAPE)
    assert chosen(replayed) == {
        "SCR_CACHE_BYPASS": 0,
        "SCR_FLUSH": 1,
        "SCR_FLUSH_ASYNC": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
    }
    assert replayed.settings_from == (
        "SCR_CACHE_BYPASS=0 SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE=PTHREAD (the trace shows it), else"
        " SCR's defaults: --conf FILE says what the job ran with"
    )


def test_its_flushes_are_those_of_the_study(traces: Path) -> None:
    replayed = replay_traces([traces / "scr_pfs_one"], SHAPE)
    sentences = {intent.name: intent.sentence for intent in replay_view(replayed).intents}
    assert "flush takes 30.05" in sentences["flush"]


def test_what_a_trace_lacks_says_nothing_of_the_settings(traces: Path) -> None:
    """Neither that no checkpoint was flushed, nor that none had redundancy: that may not have been traced."""
    assert chosen(replay_traces([traces / "scr_ssd_nf"], SHAPE)) == {"SCR_CACHE_BYPASS": 0}


def test_a_config_file_counts_before_the_trace(traces: Path) -> None:
    replayed = replay_traces([traces / "scr_pfs_one"], structs.replace(SHAPE, conf=CONF + "SCR_FLUSH=2\n"))
    assert chosen(replayed)["SCR_FLUSH"] == 2
    assert replayed.settings_from == "those of the config file, else SCR's defaults"
    partly = replay_traces([traces / "scr_pfs_one"], structs.replace(SHAPE, conf="SCR_COPY_TYPE=SINGLE\n"))
    assert chosen(partly)["SCR_CACHE_BYPASS"] == 0
    assert partly.settings_from.startswith("SCR_CACHE_BYPASS=0 SCR_FLUSH=1 ")


def test_a_config_file_that_the_trace_contradicts_is_told(traces: Path) -> None:
    replayed = replay_traces([traces / "scr_pfs_one"], structs.replace(SHAPE, conf="SCR_CACHE_BYPASS=1\n"))
    assert chosen(replayed)["SCR_CACHE_BYPASS"] == 1
    assert replayed.settings_from == "SCR_CACHE_BYPASS=1 (user config), but the job wrote to its cache"


def test_without_writes_to_a_cache_they_are_the_defaults_and_options_say_more(traces: Path) -> None:
    for shape, ending in ((SHAPE, ""), (JobShape(prefix=PREFIX), ", --cache DIR where its cache was")):
        replayed = replay_traces([traces / "scr_bypass"], shape)
        assert chosen(replayed) == {}
        assert replayed.settings_from == (
            "SCR's defaults, which write past the cache: --conf FILE says what the job ran with" + ending
        )
