"""Cheap looks at a job while it runs: what tells that it goes on, and when to ask why it does not.

``look`` is what was seen at one moment, ``course`` decides from looks alone what to do,
``processes``, ``folder`` and ``slurm`` take looks, ``deadline`` reads when others will end the job.
"""
