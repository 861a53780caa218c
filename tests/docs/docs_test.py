#!/usr/bin/python3
"""docs_test.py SOURCE_FOLDER ATTUNE: what the pages say, held against the tree and the program.

Links lead somewhere, paths in backticks exist, pages that the sources name exist, and every
`attune ...` line names a command, subcommand and flags that the program has. Each check is a
function over text, so that the tests at the top can hand it a page that is wrong.
"""

import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE, ATTUNE = "", ""
SKIPPED_FOLDERS = re.compile(r"^(build.*|\..*|__pycache__|node_modules|work)$")
# A page that nobody reads to its end hides what it says.
LONGEST_PAGE = 400
TOP_FOLDERS = ("docs/", "examples/", "gates/", "include/", "skill/", "src/", "tests/", ".ci/")


def files_under(root, endings):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not SKIPPED_FOLDERS.match(f))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), root)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def without_fences(text):
    return re.sub(r"^(```|~~~).*?^\1[ \t]*$", "", text, flags=re.M | re.S)


def fences(text):
    """(language, text) of each fenced block."""
    return re.findall(r"^```([a-z]*)[^\n]*\n(.*?)^```[ \t]*$", text, flags=re.M | re.S)


def headings(text):
    """Anchors of a page: heading text in lower case, punctuation gone, spaces as dashes."""
    found = set()
    for title in re.findall(r"^#+ +(.*?)\s*$", without_fences(text), flags=re.M):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


def bad_links(page, text, exists, page_text):
    """Relative links that lead nowhere, and anchors that the target lacks."""
    prose = re.sub(r"`[^`\n]*`", "", without_fences(text))
    problems = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not exists(full):
            problems.append(f"{page}: link to {target}: no such file")
        elif anchor and full.endswith(".md") and anchor not in headings(page_text(full)):
            problems.append(f"{page}: link to {target}: no such heading")
    return problems


def bad_paths(page, text, matches):
    """`src/x/y.cc` in backticks that does not exist; `*`, <x> and NNNN stand for any name."""
    problems = []
    for span in re.findall(r"`([^`\n]+)`", without_fences(text)):
        if not span.startswith(TOP_FOLDERS) or re.search(r"\s", span):
            continue
        pattern = re.sub(r"<[^>]*>|NNNN", "*", span)
        if not matches(pattern):
            problems.append(f"{page}: `{span}` does not exist")
    return problems


def command_lines(text):
    """Lines of a page that start attune: in shell blocks and in backticks."""
    found = []
    for language, block in fences(text):
        if language in ("", "sh", "bash", "console"):
            found += [line.strip().removeprefix("$ ") for line in block.splitlines()]
    found += re.findall(r"`([^`\n]+)`", without_fences(text))
    # VAR=value in front, and the program by its path in a build folder.
    start = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:build[-\w]*/bin/)?attune(?: |$)")
    return [line for line in found if start.match(line)]


class Program:
    """What the program says about itself, asked once a command."""

    def __init__(self, ask):
        self.ask = ask
        self.known = {}

    def flags_of(self, words):
        """Flags that `attune WORDS... --help` lists; None when there is no such command."""
        key = tuple(words)
        if key not in self.known:
            code, text = self.ask([*words, "--help"])
            listed = re.findall(r"^  (-\S.*?)(?:  |$)", text, flags=re.M)
            flags = {}
            for entry in listed:
                takes = re.search(r" [A-Za-z]", entry.split(", ")[-1]) is not None
                for spelling in entry.split(", "):  # of "-c, --campaign ID" both take it
                    flags[spelling.partition(" ")[0]] = takes
            subcommands = re.findall(r"^Commands:\n((?:  .*\n)+)", text, flags=re.M)
            subs = re.findall(r"^  ([a-z]\S*)", "".join(subcommands), flags=re.M)
            self.known[key] = (flags, subs) if code == 0 else None
        return self.known[key]


def bad_command(line, program):
    """The first thing in an attune line that the program does not know, or None."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return str(error)
    while words and re.match(r"^[A-Z_]+=", words[0]):
        words.pop(0)
    words.pop(0)
    # After a lone "--" stand another program's arguments.
    for stop in ("|", ">", "&&", ";", "2>", "&", "--"):
        if stop in words:
            words = words[: words.index(stop)]
    globals_, commands = program.flags_of([])
    path, index, seen_free = [], 0, False
    while index < len(words):
        word = words[index].rstrip(",")
        index += 1
        known = program.flags_of(path)
        if word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            if name in known[0]:
                takes = known[0][name]
            elif name in globals_:
                takes = globals_[name]
            elif re.match(r"^-v+$", name) and "-v" in globals_:
                takes = False
            else:
                return f"unknown flag {name}"
            index += 1 if takes and not equals else 0
        elif not path:
            if word not in commands:
                return f"unknown command {word}"
            path.append(word)
        elif not seen_free and known[1] and len(path) == 1:
            if word in known[1]:
                path.append(word)
            elif re.match(r"^[a-z]+$", word):
                return f"unknown subcommand {word}"
            seen_free = True
        else:
            seen_free = True
            if path == ["help"] and program.ask(["help", word])[0] != 0:
                return f"no help on {word}"
    return None


def schema_keys(schema, prefix=""):
    """Dotted names of all keys of a JSON Schema, sections in lists like those in maps."""
    for name, value in schema["properties"].items():
        inner = value["items"] if value.get("type") == "array" else value
        yield prefix + name
        if "properties" in inner:
            yield from schema_keys(inner, f"{prefix}{name}.")


def undocumented(keys, text):
    """Keys whose last part stands in no backticks of the page, alone or as part of a longer one."""
    named = set()
    for span in re.findall(r"`([^`\n]+)`", without_fences(text)):
        named.update(re.findall(r"[a-z][a-z0-9_]*", span))
    return [key for key in keys if key.rpartition(".")[2] not in named]


def named_pages(text):
    return set(re.findall(r"\b(?:docs/(?:[\w-]+/)*|gates/)[\w-]+\.md\b", text))


class Checks(unittest.TestCase):
    """A check that finds nothing looks like pages without faults."""

    def test_a_link_to_nowhere_is_found(self):
        pages = {"docs/a.md": "# One two\n", "README.md": ""}
        text = "[x](a.md) [y](b.md) [z](a.md#one-two) [w](a.md#three) [v](https://a.b/c)"
        found = bad_links("docs/c.md", text, lambda p: p in pages, lambda p: pages[p])
        self.assertEqual(len(found), 2, found)
        self.assertIn("b.md", found[0])
        self.assertIn("#three", found[1])

    def test_a_path_that_is_gone_is_found(self):
        text = "`src/a.cc` `src/gone.cc` `src/<part>/b.cc` `not a path` `src/x y`"
        there = {"src/a.cc", "src/*/b.cc"}
        found = bad_paths("p.md", text, lambda p: p in there)
        self.assertEqual(found, ["p.md: `src/gone.cc` does not exist"])

    def test_commands_are_found_in_blocks_and_backticks(self):
        text = "use `attune a`\n```sh\nattune b --c\ncd x\n```\n```yaml\nattune: no\n```\n"
        self.assertEqual(sorted(command_lines(text)), ["attune a", "attune b --c"])

    def test_a_key_that_no_page_names_is_found(self):
        schema = {"properties": {"a": {"properties": {"b_c": {}}},
                                 "d": {"type": "array", "items": {"properties": {"e": {}}}}}}
        keys = list(schema_keys(schema))
        self.assertEqual(keys, ["a", "a.b_c", "d", "d.e"])
        self.assertEqual(undocumented(keys, "`a.b_c`, `d: [{x}]`, e"), ["d.e"])

    def test_what_the_program_does_not_know_is_found(self):
        top = "Commands:\n  run   x\n  gate  x\n  help  x\n\nGlobal flags:\n  -c, --campaign ID  x\n"
        texts = {
            (): top,
            ("run",): "Flags and arguments:\n  --budget H|auto  x\n  --fast   x\n",
            ("gate",): "Commands:\n  list   x\n",
            ("gate", "list"): "",
            ("help",): "",
        }

        def ask(words):
            if words[0] == "help" and words[1] != "--help":
                return (0 if words[1] == "run" else 2), ""
            key = tuple(words[:-1])
            return (0, texts[key]) if key in texts else (2, "")

        program = Program(ask)
        good = ["attune", "attune run r.yaml --budget auto --fast -c x", "attune -c run run r",
                "attune gate list", "attune help run", "attune run r > out --nonsense"]
        for line in good:
            self.assertIsNone(bad_command(line, program), line)
        for line in ["attune fly", "attune run r --slow", "attune gate burn", "attune --odd",
                     "attune help fly", "attune run 'r"]:
            self.assertIsNotNone(bad_command(line, program), line)


class Project(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = list(files_under(SOURCE, ".md"))
        cls.program = Program(cls.ask)

    @staticmethod
    def ask(words):
        done = subprocess.run([ATTUNE, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    def none(self, problems):
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_the_pages_that_belong_to_a_project_are_there(self):
        for page in ("README.md", "docs/architecture.md", "docs/contributing.md"):
            self.assertIn(page, self.pages)

    def test_links_resolve(self):
        exists = lambda path: os.path.exists(os.path.join(SOURCE, path))  # noqa: E731
        self.none([p for page in self.pages for p in bad_links(page, read(page), exists, read)])

    def test_paths_exist(self):
        matches = lambda pattern: glob.glob(os.path.join(SOURCE, pattern))  # noqa: E731
        # What the training example makes is there only after it ran.
        pages = [p for p in self.pages if not p.startswith("examples/")]
        made = re.compile(r"`(examples/gpt/prepared|examples/gpt/recipe\.tuned)[^`]*`")
        self.none([p for page in pages for p in bad_paths(page, made.sub("", read(page)), matches)])

    def test_commands_are_the_programs(self):
        problems = []
        for page in self.pages:
            for line in command_lines(read(page)):
                wrong = bad_command(line, self.program)
                if wrong:
                    problems.append(f"{page}: {line}: {wrong}")
        self.none(problems)

    def test_examples_in_help_are_the_programs(self):
        problems = []
        for command in self.program.flags_of([])[1]:
            code, text = self.ask(["help", command])
            self.assertEqual(code, 0, command)
            for line in re.findall(r"^  (attune .*)$", text.partition("\nUsage:")[0], flags=re.M):
                wrong = bad_command(line, self.program)
                if wrong:
                    problems.append(f"help {command}: {line}: {wrong}")
        self.none(problems)

    def test_recipes_in_pages_are_recipes(self):
        seen = 0
        for page in self.pages:
            for language, block in fences(read(page)):
                if language != "yaml" or not block.startswith("schema: attune/recipe/1"):
                    continue
                seen += 1
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "recipe.yaml")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(block)
                    done = subprocess.run([ATTUNE, "check", path], stdin=subprocess.DEVNULL,
                                          capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, f"{page}: {done.stderr}")
        self.assertGreater(seen, 0)

    def test_json_in_pages_is_json(self):
        for page in self.pages:
            for language, block in fences(read(page)):
                if language == "json":
                    with self.subTest(page):
                        json.loads(block)

    def test_every_recipe_key_has_its_place_on_the_page(self):
        code, text = self.ask(["schema", "recipe"])
        self.assertEqual(code, 0)
        self.none(undocumented(schema_keys(json.loads(text)), read("docs/formats/recipe.md")))

    def test_exit_codes_are_the_programs(self):
        told = set(re.findall(r"^ +(\d+)  ", self.ask(["help", "exit-codes"])[1], flags=re.M))
        section = read("README.md").partition("## Exit codes")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| ([\d, ]+) \|", section, flags=re.M)
        self.assertEqual({code for row in rows for code in row.split(", ")}, told)

    def test_words_of_traces_are_on_their_page(self):
        page = read("docs/formats/traces.md")
        notes = re.findall(r'^ +\{"([a-z_]+)",', read("src/traces/parse_notes.cc"), flags=re.M)
        classes = re.findall(r'DiagnosisThreshold\{"([a-z_0-9]+)", ([\d.]+),',
                             read("src/traces/diagnose.cc"))
        self.assertGreater(len(notes), 20)
        self.assertGreater(len(classes), 10)
        self.none([f"note {n}" for n in notes if f"| `{n}` |" not in page])
        self.none([f"class {c}" for c, t in classes if f"| `{c}` | {t} |" not in page])

    def test_pages_that_sources_name_exist(self):
        problems = []
        for path in files_under(SOURCE, (".h", ".cc", ".in", ".sql", ".tsv", ".py", ".sh", ".md")):
            if path.startswith("tests/docs/"):
                continue
            for page in sorted(named_pages(read(path))):
                if page not in self.pages and "/NNNN" not in page:
                    problems.append(f"{path}: {page} does not exist")
        self.none(problems)

    def test_decisions_are_numbered_once(self):
        numbers = []
        for page in self.pages:
            match = re.match(r"docs/decisions/(\d{4})-", page)
            if match:
                title = read(page).splitlines()[0]
                self.assertTrue(title.startswith(f"# {int(match[1])}. "), f"{page}: {title}")
                numbers.append(int(match[1]))
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_pages_can_be_read(self):
        self.none([f"{page}: {n} lines" for page in self.pages
                   if (n := read(page).count("\n")) > LONGEST_PAGE])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: docs_test.py SOURCE_FOLDER ATTUNE")
    SOURCE, ATTUNE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
