"""Ctrl-C before the command line has begun: its imports take a second, in which nobody is there to catch it."""

import os
import sys

if os.path.basename(sys.argv[0]) == "pullback" or sys.orig_argv[1:3] == ["-m", "pullback"]:  # in any other program it is not ours
    sys.excepthook = lambda kind, *rest: os._exit(130) if kind is KeyboardInterrupt else sys.__excepthook__(kind, *rest)
