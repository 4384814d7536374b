"""What `import torch` calls by the entry point torch.backends, so that init_process_group("penstock") needs no
import of ours.

An exception here would break `import torch` for programs that never use Penstock."""


def register() -> None:
    try:
        import penstock.torch  # noqa: F401
    except Exception:  # the import of penstock.torch says what is wrong to who uses it
        pass
