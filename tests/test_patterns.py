"""No pattern repeats a group possessively: Python before 3.11.5 reads such a pattern wrongly (gh-106052)."""

import re
import subprocess
import sys

import pytest

from tests.test_outgoing_calls import PACKAGES, ROOT

#: Imports the modules named, and prints the patterns that they compile, each after a NUL character, and how one is read
#: that may hold such a group.
PRINT_PATTERNS = r"""
import importlib, re, sys

compile_pattern, patterns = re.compile, {}

def keep_pattern(pattern, flags=0):
    patterns[pattern, int(flags)] = None
    return compile_pattern(pattern, flags)

re.compile = keep_pattern
for module in sys.argv[1:]:
    importlib.import_module(module)
re.purge()
ends_with_backspace = compile_pattern(r"[\w)]\x08")
possessive = compile_pattern(r"[*+?}]\+|\(\?>")
for pattern, flags in patterns:
    print(end=f"{chr(0)}{pattern!r:.200}{chr(10)}")
    if ends_with_backspace.search(str(pattern)):
        print("BACKSPACE")
    if possessive.search(str(pattern)):
        compile_pattern(pattern, flags | re.DEBUG)
"""
POSSESSIVE = re.compile(r"^( *)POSSESSIVE_REPEAT .*\n((?:\1  .*\n)+)", re.MULTILINE)
CHARACTER = re.compile(r" *(?:IN|LITERAL|NOT_LITERAL|ANY)\b")


def repeats_a_group(read: str) -> bool:
    """Say whether a pattern, as `re.DEBUG` prints it, holds an atomic group or repeats more than a character so."""
    bodies = [(len(one[1]) + 2, one[2].splitlines()) for one in POSSESSIVE.finditer(read)]
    steps = [[line for line in lines if len(line) - len(line.lstrip()) == indent] for indent, lines in bodies]
    return "ATOMIC_GROUP" in read or any(len(one) != 1 or not CHARACTER.match(one[0]) for one in steps)


@pytest.mark.parametrize("pattern", ["(?:ab)++", "(?:a|bc)*+", "(?>a)"])
def test_a_group_is_seen(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    re.compile(pattern, re.DEBUG)
    assert repeats_a_group(capsys.readouterr().out)


@pytest.mark.parametrize("pattern", ["[ab]++c", "a{1,3}+", ".*+"])
def test_a_character_is_no_group(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    re.compile(pattern, re.DEBUG)
    assert not repeats_a_group(capsys.readouterr().out)


def test_no_pattern_repeats_a_group_possessively() -> None:
    files = [
        file.relative_to(ROOT)
        for one in PACKAGES
        for file in (ROOT / one).rglob("*.py")
        if " re\n" in file.read_text(encoding="utf-8") and (file.parent / "__init__.py").exists()
    ]
    modules = [".".join(file.with_suffix("").parts) for file in files if file.stem != "__main__"]
    told = subprocess.run([sys.executable, "-c", PRINT_PATTERNS, *modules], capture_output=True, text=True, check=True)
    patterns = told.stdout.split("\0")[1:]
    assert len(patterns) > 300
    assert [one.partition("\n")[0] for one in patterns if repeats_a_group(one)] == []
    # "\\b" of a string that is not raw: it was meant as the end of a word.
    assert [one.partition("\n")[0] for one in patterns if "\nBACKSPACE\n" in one] == []
