"""Where spans go: tracing backends over OTLP, files, the terminal, a page. Knows the model, never a format."""
