"""Sending spans over OTLP so that nothing is lost and the account is right (DESIGN §5).

`settings` says where to and how; `codec` makes bytes; `batch` makes requests of them; `http` and `grpc` are the two channels, each makes exactly
one request a call and gives back an `answer`; `sender` retries, splits and accounts. Nothing here knows a format, and nothing
private of the official exporters is touched.
"""
