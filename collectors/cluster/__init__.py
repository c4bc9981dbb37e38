"""What the tools of hosts and clusters print: one file per topic, one reader for all."""
