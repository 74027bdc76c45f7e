"""What SimLab records mean, whatever file they lie in: one rollout as a `Document`, and the spans of it.

Shared by the formats that hold SimLab's records (its own ``artifacts.json`` and the ATIF files that it writes). It is no format itself: it
opens no file and recognises nothing. `document` is what was recorded, `pairing` says which call, answer and result belong
together, `observation` looks into a result, `messages` reads one message, `spans` puts it all into the model, `reward` reads
verdicts, `trajectory` takes a `Document` out of SimLab's ATIF.
"""
