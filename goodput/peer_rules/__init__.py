"""The rules of ml-goodput-measurement 0.2.3 (the policy ``compat``), and where they differ from ours."""
