"""What a later run finds in the config file: the user's own values, or those that were tuned before."""

from scrtune.intents.events import SettingsObserved
from scrtune.intents.tune.job_run import JobRun


class TestRuns:
    def job(
        self, sources: dict[str, str] | None = None, ranks: int = 2, **settings: int | str
    ) -> SettingsObserved:
        return SettingsObserved(settings=settings, sources=sources or {}, ranks=ranks)

    def test_what_was_tuned_and_found_in_our_file_is_not_the_users_word(self) -> None:
        first = JobRun(self.job({"A": "default"}, A=1))
        first.remember({"A": 7})
        second = first.next(self.job({"A": "user config"}, A=7))
        assert (second.job.settings, second.job.sources) == ({"A": 1}, {"A": "default"})
        assert second.new_because == ""
        third = second.next(self.job({"A": "user config"}, A=7))
        assert third.new_because == ""

    def test_what_the_user_never_had_is_gone_again(self) -> None:
        first = JobRun(self.job())
        first.remember({"A": 7})
        assert first.next(self.job({"A": "user config"}, A=7)).job.settings == {}

    def test_the_environment_is_always_the_users_word(self) -> None:
        first = JobRun(self.job({"A": "default"}, A=1))
        first.remember({"A": 7})
        second = first.next(self.job({"A": "environment"}, A=7))
        assert second.job.settings == {"A": 7}
        assert "settings" in second.new_because

    def test_a_value_that_was_never_written_is_the_users_word(self) -> None:
        first = JobRun(self.job({"A": "default"}, A=1))
        first.remember({"A": 7})
        assert first.next(self.job({"A": "user config"}, A=8)).job.settings == {"A": 8}

    def test_a_value_that_was_written_long_ago_is_forgotten(self) -> None:
        first = JobRun(self.job({"A": "default"}, A=1))
        for value in range(10, 10_000):
            first.remember({"A": value, "B": 5})
        for value, own in ((10, 10), (9999, 1)):
            assert first.next(self.job({"A": "user config"}, A=value)).job.settings == {"A": own}
        found = first.next(self.job({"B": "user config"}, B=5)).job
        assert found.settings == {}, "what is written again is as new"

    def test_another_shape_or_another_declaration_is_another_job_to_learn(self) -> None:
        first = JobRun(self.job(A=1))
        assert "4 ranks" in first.next(self.job(A=1, ranks=4)).new_because
        pinned = first.next(self.job({"A": "environment"}, A=1))
        assert "environment" in pinned.new_because
        floored = SettingsObserved(settings={"A": 1}, ranks=2, floor="NODE")
        assert "floor" in first.next(floored).new_because
