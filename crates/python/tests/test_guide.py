"""The page of the guide, and the examples in the package's documentation."""

import doctest
import os
import re
from pathlib import Path

import pytest

import tidemill
from tidemill import _functions

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block continues the one before; what follows `>>>` is compared with what is shown."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/guide/python.md").read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) > 5
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(), {}
    for number, block in enumerate(blocks):
        test = parser.get_doctest(block, names, f"block {number + 1}", "docs/guide/python.md", 0)
        assert test.examples, f"block {number + 1} has no example"
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.summarize().failed == 0


@pytest.mark.parametrize("module", [tidemill, _functions])
def test_examples_in_the_documentation(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0 and results.failed == 0


def test_everything_public_is_documented() -> None:
    for name in tidemill.__all__:
        thing = getattr(tidemill, name)
        assert thing.__doc__, name
        public = [part for part in vars(thing) if not part.startswith("_")] if isinstance(thing, type) else []
        for part in public:
            assert getattr(thing, part).__doc__ or os.environ.get("PYTHONOPTIMIZE") == "2", f"{name}.{part}"
