"""One file of all pages, and its index: nothing is left out, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from docs import llms, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def test_both_files_are_written(tmp_path: Path) -> None:
    llms.main(tmp_path / "site")
    index, whole = ((tmp_path / "site" / f"llms{x}.txt").read_text() for x in ("", "-full"))
    assert (index, whole) == (llms.index(), llms.whole())


def test_the_index_has_every_page_once_with_its_sentence() -> None:
    text = llms.index()
    assert re.match(r"# das: .+\n\n> `das` .+\.\n\n## Tutorials\n", text)
    rows = re.findall(r"^- \[(.+?)\]\(docs/(.+)\.html\): (.+[.?])$", text, re.MULTILINE)
    there = {p.relative_to(pages.DOCS).with_suffix("").as_posix() for p in pages.pages()} - {
        "index"
    }
    assert sorted(name for _, name, _ in rows) == sorted(there)
    assert all(len(said.split()) > 3 for *_, said in rows)
    assert not [said for *_, said in rows if "](" in said]


def test_the_whole_has_every_page_with_all_its_words() -> None:
    text = llms.whole()
    paths = re.findall(r"^<!-- ((?:docs/|README).*\.md) -->$", text, re.MULTILINE)
    listed = [p.relative_to(pages.ROOT).as_posix() for p in pages.pages() if p.stem != "index"]
    assert paths[0] == "README.md"
    assert sorted(paths[1:]) == sorted(listed)
    words = sum(len((pages.ROOT / path).read_text(encoding="utf-8").split()) for path in paths)
    assert len(text.split()) == words + 3 * len(paths)


def test_links_of_the_whole_lead_from_the_root() -> None:
    targets = {t for t in LINK.findall(CODE.sub("", llms.whole())) if "://" not in t}
    assert len(targets) > 100
    assert not [t for t in targets if not (pages.ROOT / t.partition("#")[0]).is_file()]
