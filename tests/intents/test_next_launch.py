"""What only a launch can change waits for the next one."""

from scrtune.daemon.views import status_view
from scrtune.intents.effects import RewriteConfig
from scrtune.intents.events import KnowledgeRecalled, TuningSwitched, UserEdited, Values
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.durability import permits
from scrtune.intents.settings import is_asynchronous, is_cached
from scrtune.intents.tune.decisions import Verdict

from ..support.simulated_job import CACHED, REAL, Job
from .happenings import AT_LAUNCH, OWN, asks_for


class TestNextLaunch:
    def waiting(self) -> Job:
        return Job(CACHED, mutability=AT_LAUNCH).until("pending")

    def test_what_only_a_launch_can_change_waits_for_it_and_is_in_the_config_file_only(self) -> None:
        job = self.waiting()
        pending = next(each for each in job.pipeline.decisions if each.verdict is Verdict.PENDING)
        assert "SCR_FLUSH_ASYNC: only a launch can change it" in pending.because
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 0
        assert "SCR_FLUSH_ASYNC" not in job.pipeline.advice.settings
        assert asks_for(job).items() >= {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}.items()
        rewrites = [each.advice for each in job.effects if isinstance(each, RewriteConfig)]
        assert any(each.at_launch.get("SCR_FLUSH_ASYNC") == 1 for each in rewrites)
        assert not any("pending" in each.reason for each in rewrites), "nothing was done"

    def test_the_next_run_begins_with_it_and_it_stays_if_that_was_cheaper(self) -> None:
        job = self.waiting()
        job.relaunch()
        trial = job.pipeline.decisions[-1]
        assert trial.verdict is Verdict.TRIAL
        assert trial.because.endswith("this run began with it")
        job.checkpoints(6)
        (judged,) = [each for each in job.pipeline.decisions if each.rule == trial.rule][-1:]
        assert judged.verdict is Verdict.ACCEPTED
        job.settled()
        job.relaunch()
        assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 1
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_FLUSH_ASYNC"] == 0
        assert "SCR_FLUSH_ASYNC" not in asks_for(job)

    def test_what_is_worse_is_taken_back_as_a_whole_by_the_launch_after(self) -> None:
        job = self.waiting()
        tried = asks_for(job)
        job.relaunch()
        job.checkpoints(6, slowed_s=15.0)
        undone = next(each for each in reversed(job.pipeline.decisions) if each.verdict is Verdict.REVERTED)
        assert "until the next launch it stays active" in undone.because
        assert {name: job.in_force[name] for name in tried} == tried, "no half of it"
        assert asks_for(job) == {name: OWN[name] for name in tried}
        job.relaunch()
        assert {name: job.in_force[name] for name in tried} == {name: OWN[name] for name in tried}
        assert asks_for(job) == {}

    def test_a_run_that_ends_too_early_to_tell_is_followed_by_one_that_goes_on(self) -> None:
        job = self.waiting()
        for _ in range(2):
            job.relaunch()
            assert job.trying is not None
            assert "this run began with it" in job.trying.because
            job.checkpoints(1, slowed_s=5.5)
        assert job.words[-1] == "trial"

    def test_one_in_which_no_checkpoint_was_measured_is_the_last_with_it(self) -> None:
        job = self.waiting()
        job.relaunch()
        job.relaunch()
        assert job.words[-1] == "reverted"
        assert "no checkpoint was measured" in job.pipeline.decisions[-1].because
        job.relaunch()
        assert job.pipeline.settings == OWN

    def test_a_launch_that_did_not_read_the_file_tries_nothing_and_it_waits_on(self) -> None:
        job = self.waiting()
        told, wanted = list(job.verdicts), asks_for(job)
        job.start(CACHED)
        assert job.verdicts == told
        assert asks_for(job) == wanted

    def test_a_floor_that_only_a_launch_can_keep_is_kept_from_the_next_one_on(self) -> None:
        fixed = {**REAL, "SCR_COPY_TYPE": "launch"}
        job = Job(CACHED, nodes=2, floor="NODE", mutability=fixed)
        assert job.verdicts == [("keep the redundancy floor", "required")]
        assert "from the next launch on" in job.pipeline.decisions[0].because
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "SINGLE"
        assert asks_for(job) == {"SCR_COPY_TYPE": "PARTNER"}
        job.checkpoints(8)
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.settings["SCR_COPY_TYPE"] == "PARTNER"
        assert job.pipeline.tuner.baseline["SCR_COPY_TYPE"] == "PARTNER"
        assert "SCR_COPY_TYPE" not in asks_for(job)

    def test_an_edit_of_what_only_a_launch_can_change_is_the_users_word_from_then_on(self) -> None:
        fixed = {**REAL, "SCR_SET_SIZE": "launch"}
        job = Job(CACHED, mutability=fixed)
        job.tell(UserEdited(changes={"SCR_SET_SIZE": 4, "SCR_FLUSH": 2}))
        assert "SCR_SET_SIZE from the next launch on" in job.pipeline.decisions[-1].because
        advice = job.pipeline.advice
        assert (advice.settings["SCR_FLUSH"], advice.settings["SCR_SET_SIZE"]) == (2, 8)
        assert advice.at_launch == {"SCR_SET_SIZE": 4}
        job.checkpoints(12, flush_every=2)
        assert "trial" in job.words, "which is no reason not to tune"
        job.relaunch()
        assert job.pipeline.tuner is not None
        assert job.pipeline.tuner.baseline["SCR_SET_SIZE"] == job.pipeline.settings["SCR_SET_SIZE"] == 4

    def test_every_run_shows_anew_that_its_files_do_not_meet_before_it_is_moved_to_the_cache(self) -> None:
        """A run that began in the cache by our file would look like one whose user chose that."""
        job = Job({"SCR_COPY_TYPE": "SINGLE"}, noise=0.0, mutability=REAL, nodes=2, floor="SINGLE")
        job.past_the_cache_s = 20.0
        job.settled()
        assert is_cached(job.in_force)
        kept = job.pipeline.advice.kept
        assert kept is not None
        assert "SCR_CACHE_BYPASS" not in kept
        job.relaunch()
        assert job.pipeline.settings["SCR_CACHE_BYPASS"] == 0, "it is asked for again, live"
        assert "SCR_CACHE_BYPASS" not in asks_for(job)

    def test_the_cache_is_no_thing_to_wait_for_until_the_next_launch(self) -> None:
        user: Values = {"SCR_COPY_TYPE": "SINGLE"}
        job = Job(user, noise=0.0, init_s=5e3, mutability=REAL, nodes=2, floor="SINGLE")
        job.past_the_cache_s = 20.0
        job.checkpoints(6)
        assert not is_cached(job.in_force)
        assert asks_for(job) == {}


def test_an_interval_that_waits_for_the_launch_is_not_said_to_be_found() -> None:
    job = Job(CACHED, mutability={**REAL, "SCR_CHECKPOINT_SECONDS": "launch"})
    job.tell(UserEdited(changes={"SCR_CHECKPOINT_SECONDS": 600}))
    assert job.pipeline.advice.at_launch["SCR_CHECKPOINT_SECONDS"] == 600
    assert status_view(job.pipeline, job.now, job_id="j", host="n").savings.interval == {}


def test_a_run_that_asks_for_more_durability_begins_anew() -> None:
    job = Job(CACHED).settled()
    assert job.in_force["SCR_FLUSH_ASYNC"] == 1
    job._described["durability"] = "strict"
    job.start()
    for _ in range(10):
        assert permits(job.pipeline.situation.rails, job.in_force)
        job.checkpoint()


def test_so_does_one_whose_user_now_says_that_checkpoints_go_past_the_cache() -> None:
    job = Job({})
    job.past_the_cache_s = 20.0
    job.settled()
    assert is_asynchronous(job.in_force)
    job.start({"SCR_CACHE_BYPASS": 1})
    for _ in range(10):
        assert not is_asynchronous(job.in_force)
        job.checkpoint()


def test_what_waited_for_a_launch_is_the_users_own_in_the_belief_too() -> None:
    job = Job(CACHED, nodes=4, mutability={**REAL, "SCR_COPY_TYPE": "launch"}).checkpoints(12)
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": "PARTNER"}))
    job.checkpoints(12)
    job.relaunch()
    job.checkpoints(12)
    tuner = job.pipeline.tuner
    assert tuner is not None
    assert tuner.belief is not None
    assert (tuner.baseline["SCR_COPY_TYPE"], tuner.belief.index(tuner.baseline)) == ("PARTNER", 0)


class TestPending:
    """What the next launch begins with is chosen anew as more is seen."""

    def test_what_does_not_pay_any_more_does_not_wait_any_longer(self) -> None:
        job = Job(CACHED, mutability={**AT_LAUNCH, "SCR_CACHE_BYPASS": "launch"}).until("pending")
        assert asks_for(job)
        job.slower = 0.01  # a flush of 4 s takes 40 ms now, and a write of 1 s 10 ms
        job.checkpoints(40)
        assert not asks_for(job)

    def test_it_is_as_durable_as_asked_for_with_what_waits_beside_it(self) -> None:
        fixed = {**REAL, "SCR_FLUSH_ASYNC": "launch", "SCR_CACHE_SIZE": "launch"}
        job = Job(CACHED, mutability=fixed, durability="next")
        job.tell(UserEdited(changes={"SCR_CACHE_SIZE": 4}))
        job.checkpoints(2)
        job.relaunch()
        for _ in range(10):
            assert permits(job.pipeline.situation.rails, job.in_force)
            job.checkpoint()


def test_the_users_own_are_not_measured_again_where_this_run_cannot_have_them() -> None:
    """Only a launch can take the flush back: a mix of both would be taken for theirs."""
    for seed in range(3):
        job = Job(CACHED, mutability={**REAL, "SCR_FLUSH_ASYNC": "launch"}, seed=seed).until("pending")
        job.relaunch()
        for _ in range(30):
            job.checkpoint(slowed_s=5.0)
            tuner = job.pipeline.tuner
            assert tuner is not None
            assert tuner.trying is None or tuner.trying.rule != "your own settings once more"


def test_datasets_may_be_numbered_anew() -> None:
    job = Job({**CACHED, "SCR_FLUSH": 10}, mutability=REAL).checkpoints(30, flush_every=10)
    job.start()
    job._dataset = 0
    job.checkpoints(3, flush_every=10)
    assert job.pipeline.tuner is not None
    assert not job.pipeline.tuner.datasets.is_newest_flushed, "none of these three was"


def test_only_what_this_job_has_tried_is_for_good() -> None:
    """What earlier jobs found stays in the memory; this job says nothing of it."""
    knowledge = Job(CACHED).settled().pipeline.knowledge
    assert knowledge is not None
    job = Job(CACHED)
    job.pipeline = Pipeline()
    job.tell(KnowledgeRecalled(knowledge=knowledge))
    job.start()
    job.tell(TuningSwitched(on=False))
    job.checkpoints(4)
    assert job.pipeline.knowledge is not None
    assert job.pipeline.knowledge.settings == knowledge.settings
    assert not status_view(job.pipeline, job.now, job_id="j", host="n", running=True).savings.for_good
