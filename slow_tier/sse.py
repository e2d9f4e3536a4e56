"""Cut a byte stream into server-sent events.

The format is the WHATWG HTML standard, section 9.2.6. `httpx.Response.aiter_lines` is not
used because it splits like `str.splitlines`, so that a U+2028 inside a JSON string, which
servers send unescaped, would tear the event apart.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """Incremental decoder of one response body.

    Bytes are cut at line ends before they are decoded, so a character whose UTF-8 bytes
    arrive in two reads stays whole.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[str] = []
        self._at_start = True

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of every event that ``chunk`` completes, in order.

        An event that the body's end cuts off is never returned, as the standard asks.
        """
        # A final "\r" may be the first half of "\r\n", so it waits for the next byte.
        splits = b"\n" in chunk or b"\r" in chunk or self._buffer.endswith(b"\r")
        self._buffer += chunk
        if not splits:
            return []
        lines = bytes(self._buffer).splitlines(keepends=True)
        self._buffer = bytearray() if lines[-1].endswith(b"\n") else bytearray(lines.pop())
        events = []
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                events.append(event)
        return events

    def _line(self, raw: bytes) -> str | None:
        if self._at_start:
            raw = raw.removeprefix(_BOM)
            self._at_start = False
        line = raw.decode("utf-8", "replace")
        if line:
            field, _, value = line.partition(":")
            if field == "data":
                self._data.append(value.removeprefix(" "))
            return None
        if not self._data:
            return None
        event, self._data = "\n".join(self._data), []
        return event
