"""Play, judge, keep, compare: a trial is a row, and everything after it takes rows."""
