"""Jobs that hang, one folder each: the script, what the diagnosis must say, a recording."""
