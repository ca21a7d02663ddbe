"""The parameters that follow from each intent without a trial, by a rule for each in a file of its own."""
