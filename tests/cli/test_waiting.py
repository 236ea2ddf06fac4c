"""The line that moves while a command takes its time."""

import io
import time

from proxy.cli.start_page import Waiting


class Screen(io.StringIO):
    """A terminal, if anybody asks."""

    def isatty(self) -> bool:
        return True


def test_it_says_what_is_done_and_how_long_and_goes_away() -> None:
    screen = Screen()
    with Waiting("Groundwire starts", screen, every_s=0.001):
        while screen.getvalue().count("Groundwire starts") < 3:
            time.sleep(0.001)
    assert "\rGroundwire starts 0 s\x1b[K\r" == screen.getvalue()[: len("\rGroundwire starts 0 s\x1b[K\r")]
    assert screen.getvalue().endswith("\r\x1b[K")


def test_after_its_end_it_writes_nothing_more() -> None:
    screen = Screen()
    with Waiting("Groundwire starts", screen, every_s=0.001) as waiting:
        waiting.over()
        written = screen.getvalue()
        waiting.over()
    assert written == screen.getvalue()


def test_into_a_file_it_writes_nothing() -> None:
    file = io.StringIO()
    with Waiting("Groundwire starts", file):
        pass
    assert "" == file.getvalue()
