"""What all tests need."""

import signal

from hypothesis import settings

# No test depends on how fast this machine is at the moment.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell has what it starts in the background ignore SIGINT, and so would every command that a test starts: then Ctrl-C could not be tried.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
