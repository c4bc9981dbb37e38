"""Cheap looks at a job while it runs: what tells that it goes on, and when to ask why it does not.

``course`` is what was seen at one moment, and decides from looks alone what to do; ``processes``
and ``outputs`` take looks, ``deadline`` reads when others will end the job.
"""
