"""Decodes a clip. Of clip-1-5.mp4 it asks how to go on, at a terminal that it does not have."""

import os
import signal
import sys

name = sys.argv[1]
if name == "clip-1-5.mp4":
    os.kill(os.getpid(), signal.SIGSTOP)  # as SIGTTIN does to a program in the background
