"""Can the tests of a rule fail? Every small change of its source must be noticed."""
