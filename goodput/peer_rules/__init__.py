"""The rules of ml-goodput-measurement 0.2.3 ("the peer"; the policy ``compat``), and where ours differ."""
