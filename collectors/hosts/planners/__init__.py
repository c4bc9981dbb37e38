"""On which hosts a job runs and how each is reached: a file for each way, none starts anything."""
