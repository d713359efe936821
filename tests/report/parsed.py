"""A page, parsed."""

import base64
import re
import zlib
from html.parser import HTMLParser

import numpy as np


class Page(HTMLParser):
    """Text, ids, addresses, headings and scripts of a page; fails on a tag that is closed out of
    order.
    """

    VOID = frozenset({"meta", "br", "path", "use", "rect", "line", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.references, self.words = [], [], [], []
        self.headings, self.scripts, self.heads = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag == "th":
            self.heads.append(dict(attrs).get("scope"))
        if tag == "script":
            self.scripts.append("")
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in ("href", "src", "xlink:href", "clip-path"):
                self.references.append(value)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def assert_sound(text):
    """Well formed; headings in order; every head of a table says what it heads; needs nothing from
    elsewhere.
    """
    page = Page(text)
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(page.headings, page.headings[1:], strict=False))
    assert set(page.heads) <= {"col", "row", "colgroup"}
    assert text.count("<table") == text.count("<caption")
    assert len(set(page.ids)) == len(page.ids)
    assert text.count('role="img" aria-label="') == text.count("<svg ")
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for address in re.findall(r"""(?:src|href|url\()\s*=?\s*["'(]?([^"')>\s]+)""", markup):
        assert address.startswith("#") or re.fullmatch(
            r"(\.\./release/)?(report|privacy)\.(html|json)|intervals/index\.html|\.\./report\.html"
            r"|tables/[\w%.-]+\.csv|dictionary\.csv|spec\.toml|ledger\.jsonl|regions\.parquet",
            address,
        ), address
    assert not re.search(r"@import|https?://(?!www\.w3\.org)", text)
    return page


def unpack(text):
    """What :func:`das.report.answers.pack` was given, flat: the inverse, as ``lookup.js`` has it."""
    raw = zlib.decompress(base64.b64decode(text))
    planes = np.frombuffer(raw, np.uint8, offset=1).reshape(raw[0], -1).astype(np.uint64)
    zigzag = (planes << (np.arange(raw[0], dtype=np.uint64) * np.uint64(8))[:, None]).sum(
        axis=0, dtype=np.uint64
    )
    return (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)
