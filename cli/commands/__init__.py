"""Commands; `job` has `status`, `explain`, `on` and `off`, `internal` what `scrtune run` starts."""
