"""The process that keeps a pair for a test run: `python -m tandemq.testing`; started by `tandemq.testing.host` alone.

It is a process of its own so that the server's folders, whose names are short, stay out of the tests' process.
"""

from tandemq.embedded import server_path


def main() -> None:
    """Until stdin closes."""
    server_path()
    from chaos import keeper

    keeper.main()


if __name__ == "__main__":
    main()
