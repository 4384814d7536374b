"""`import torch` calls this through the entry point torch.backends, so that init_process_group("penstock") works
without an import of penstock.torch.

An exception here would break `import torch` for programs that never use Penstock."""


def register() -> None:
    try:
        import penstock.torch  # noqa: F401
    except Exception:  # an explicit import of penstock.torch reports what is wrong
        pass
