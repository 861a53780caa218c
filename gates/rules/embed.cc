// Turns gates/rules/*.tsv into constexpr rows: `attune_embed_rules FOLDER OUT.cc`. Runs at build
// time; a row with an unknown word, key or column count fails the build, naming file and line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "job_key_names.h"

namespace {

using attune::gates::IsVersionKey;
using attune::gates::JobKey;
using attune::gates::kJobKeyCount;
using attune::gates::kJobKeyNames;

struct Row {
  std::string file;
  int line = 0;
  std::vector<std::string> fields;
};

[[noreturn]] void Stop(const Row& row, const std::string& why) {
  std::fprintf(stderr, "%s:%d: %s\n", row.file.c_str(), row.line, why.c_str());
  std::exit(1);
}

std::vector<std::string> Split(const std::string& s, char by) {
  std::vector<std::string> out(1);
  for (char c : s) {
    if (c == by) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// Rows below the header line, whose column names must be exactly `columns`.
std::vector<Row> Read(const std::string& folder, const std::string& name,
                      const std::string& columns) {
  const std::string path = folder + "/megatron_lm_" + name + ".tsv";
  std::ifstream in(path, std::ios::binary);
  Row at{path, 0, {}};
  if (!in) Stop(at, "cannot be opened");
  std::vector<Row> rows;
  std::string line;
  bool header = false;
  const std::size_t width = Split(columns, ' ').size();
  while (std::getline(in, line)) {
    ++at.line;
    if (line.empty() || line[0] == '#') continue;
    at.fields = Split(line, '\t');
    if (at.fields.size() != width) Stop(at, "expected " + std::to_string(width) + " columns");
    for (const std::string& f : at.fields) {
      if (f.empty()) Stop(at, "an empty field is written -");
      for (char c : f) {
        if (c < 0x20 || c > 0x7e) Stop(at, "only printable ASCII may stand in a rule");
      }
    }
    if (!header) {
      std::string joined;
      for (const std::string& f : at.fields) joined += (joined.empty() ? "" : " ") + f;
      if (joined != columns) Stop(at, "the header must be: " + columns);
      header = true;
      continue;
    }
    rows.push_back(at);
  }
  if (rows.empty()) Stop(at, "no rows");
  return rows;
}

std::string Quote(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
std::string QuoteOrEmpty(const std::string& s) { return s == "-" ? "\"\"" : Quote(s); }

std::string Pick(const Row& row, const std::string& word,
                 const std::map<std::string, std::string>& words) {
  const auto it = words.find(word);
  if (it == words.end()) Stop(row, "unknown word \"" + word + "\"");
  return it->second;
}

std::string Class(const Row& row, const std::string& word) {
  return "LeverClass::" + Pick(row, word,
                               {{"placement", "kPlacement"},
                                {"memory", "kMemory"},
                                {"overlap", "kOverlap"},
                                {"batching", "kBatching"},
                                {"kernel", "kKernel"},
                                {"env", "kEnv"},
                                {"io/logging", "kIoLogging"},
                                {"unsafe", "kUnsafe"},
                                {"objective", "kObjective"},
                                {"unknown", "kUnknown"}});
}

std::string Kind(const Row& row, const std::string& word) {
  return "ValueKind::" + Pick(row, word,
                              {{"bool", "kBool"},
                               {"int", "kInt"},
                               {"float", "kFloat"},
                               {"enum", "kEnum"},
                               {"str", "kString"},
                               {"path", "kPath"},
                               {"layout", "kLayout"},
                               {"list", "kList"},
                               {"any", "kAny"},
                               {"-", "kAny"}});
}

// "a|b", "1..64", "word" or "-": choices, lo, hi.
std::string Values(const Row& row, const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return QuoteOrEmpty(text) + ", 0, 0";
  const std::string lo = text.substr(0, dots), hi = text.substr(dots + 2);
  char* end = nullptr;
  if (std::strtod(lo.c_str(), &end) > std::strtod(hi.c_str(), nullptr) || *end != '\0') {
    Stop(row, "a range is written lo..hi");
  }
  return "\"\", " + lo + ", " + hi;
}

std::int64_t Version(const Row& row, const std::string& text) {
  if (text == "-") return 0;
  std::int64_t v[3] = {0, 0, 0};
  const std::vector<std::string> parts = Split(text, '.');
  if (parts.size() > 3) Stop(row, "not a version: " + text);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i].size() > 4 ||
        parts[i].find_first_not_of("0123456789") != std::string::npos) {
      Stop(row, "not a version: " + text);
    }
    v[i] = std::atoll(parts[i].c_str());
  }
  return v[0] * 1'000'000 + v[1] * 1000 + v[2];
}
std::int64_t Date(const Row& row, const std::string& text) {
  if (text == "-") return 0;
  const std::vector<std::string> p = Split(text, '-');
  if (p.size() != 3) Stop(row, "not a date: " + text);
  return std::atoll(p[0].c_str()) * 10000 + std::atoll(p[1].c_str()) * 100 +
         std::atoll(p[2].c_str());
}

bool IsNumber(const std::string& s) {
  return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos && s.size() < 16;
}

struct Term {
  std::string code;
  bool version = false;
};
Term ReadTerm(const Row& row, std::string text) {
  std::string was = "false";
  if (text.rfind("was.", 0) == 0) {
    was = "true";
    text = text.substr(4);
  }
  if (text.rfind("--", 0) == 0)
    return {"{Condition::Source::kFlag, -1, " + Quote(text) + ", " + was + ", FlagName(" +
            Quote(text) + ")}"};
  if (text.rfind("env:", 0) == 0) {
    return {"{Condition::Source::kEnv, -1, " + Quote(text.substr(4)) + ", " + was +
            ", FlagName(\"\")}"};
  }
  for (std::size_t i = 0; i < kJobKeyCount; ++i) {
    if (kJobKeyNames[i] != text) continue;
    return {
        "{Condition::Source::kJob, " + std::to_string(i) + ", " + Quote(text) + ", " + was + "}",
        IsVersionKey(static_cast<JobKey>(i))};
  }
  Stop(row, "unknown key \"" + text + "\"");
}

std::string ReadCondition(const Row& row, const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& w : Split(text, ' ')) {
    if (!w.empty()) words.push_back(w);
  }
  if (words.size() != 3) Stop(row, "a condition is written KEY OP VALUE: " + text);
  const Term left = ReadTerm(row, words[0]);
  const std::string op = Pick(row, words[1],
                              {{"=", "kEq"},
                               {"!=", "kNe"},
                               {"<", "kLt"},
                               {"<=", "kLe"},
                               {">", "kGt"},
                               {">=", "kGe"},
                               {"in", "kIn"},
                               {"notin", "kNotIn"},
                               {"has", "kHas"},
                               {"lacks", "kLacks"}});
  std::string out = "{" + left.code + ", Condition::Op::" + op + ", ";
  if (words[2][0] == '$') {
    return out + "true, " + ReadTerm(row, words[2].substr(1)).code + ", \"\", 0, false}";
  }
  const bool number = left.version || IsNumber(words[2]);
  const bool ordered = op == "kLt" || op == "kLe" || op == "kGt" || op == "kGe";
  if (ordered && !number) Stop(row, "an order needs a number: " + text);
  const std::int64_t value =
      left.version ? Version(row, words[2]) : (number ? std::atoll(words[2].c_str()) : 0);
  return out + "false, {}, " + Quote(words[2]) + ", " + std::to_string(value) + ", " +
         (number ? "true" : "false") + "}";
}

class Output {
 public:
  explicit Output(std::ostream& out) : out_(out) {}

  // Conditions of one row as an array of their own; returns the array's name.
  std::string Conditions(const Row& row, const std::string& text) {
    const std::string name = "kWhen" + std::to_string(next_++);
    out_ << "constexpr Condition " << name << "[] = {\n";
    for (const std::string& c : Split(text, '&')) out_ << "    " << ReadCondition(row, c) << ",\n";
    out_ << "};\n";
    return name;
  }
  void Array(const std::string& type, const std::string& name,
             const std::vector<std::string>& rows) {
    out_ << "constexpr " << type << " " << name << "[] = {\n";
    for (const std::string& r : rows) out_ << "    {" << r << "},\n";
    out_ << "};\n";
  }

 private:
  std::ostream& out_;
  int next_ = 0;
};

void Unique(const std::vector<Row>& rows, std::size_t column) {
  std::set<std::string> seen;
  for (const Row& r : rows) {
    if (!seen.insert(r.fields[column]).second) Stop(r, "stands twice: " + r.fields[column]);
  }
}

void Legality(Output& out, const std::string& folder, const std::string& file,
              const std::string& name) {
  const std::vector<Row> rows = Read(folder, file, "id source unknown when why");
  Unique(rows, 0);
  std::vector<std::string> text;
  for (const Row& r : rows) {
    const std::string when = out.Conditions(r, r.fields[3]);
    text.push_back(Quote(r.fields[0]) + ", " + Quote(r.fields[1]) + ", " +
                   Pick(r, r.fields[2], {{"refuse", "true"}, {"caution", "false"}}) + ", " + when +
                   ", " + Quote(r.fields[4]));
  }
  out.Array("LegalityRow", name, text);
}

int Run(const std::string& folder, const std::string& path) {
  std::ostringstream body;
  body << "// Made from gates/rules/*.tsv by attune_embed_rules.\n"
          "#include \"attune/gates/rules.h\"\n\nnamespace attune {\nnamespace {\n\n";
  Output out(body);

  std::vector<Row> rows =
      Read(folder, "flags", "flag kind values default dest class lever topic version");
  Unique(rows, 0);
  std::vector<std::string> text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string>& f = rows[i].fields;
    if (i > 0 && rows[i - 1].fields[0] > f[0]) Stop(rows[i], "flags must be sorted");
    text.push_back(Quote(f[0]) + ", " + Kind(rows[i], f[1]) + ", " + Values(rows[i], f[2]) + ", " +
                   Quote(f[3]) + ", " + Quote(f[4]) + ", " + Class(rows[i], f[5]) + ", " +
                   Pick(rows[i], f[6], {{"yes", "true"}, {"no", "false"}, {"derived", "false"}}) +
                   ", " + (f[6] == "derived" ? "true" : "false") + ", " + Quote(f[7]) + ", " +
                   Quote(f[8]));
  }
  out.Array("FlagRow", "kFlags", text);

  rows = Read(folder, "levers", "lever name role class");
  text.clear();
  for (const Row& r : rows) {
    text.push_back(
        Quote(r.fields[0]) + ", " + Quote(r.fields[1]) + ", LeverRole::" +
        Pick(r, r.fields[2], {{"primary", "kPrimary"}, {"choice", "kChoice"}, {"tied", "kTied"}}) +
        ", " + Class(r, r.fields[3]));
  }
  out.Array("LeverRow", "kLevers", text);

  rows = Read(folder, "env", "verdict name kind values class reason");
  Unique(rows, 1);
  text.clear();
  for (const Row& r : rows) {
    text.push_back(Pick(r, r.fields[0], {{"allow", "true"}, {"refuse", "false"}}) + ", " +
                   Quote(r.fields[1]) + ", " + Kind(r, r.fields[2]) + ", " +
                   Values(r, r.fields[3]) + ", " + Class(r, r.fields[4]) + ", " +
                   QuoteOrEmpty(r.fields[5]));
  }
  out.Array("EnvRow", "kEnv", text);

  Legality(out, folder, "legality", "kLegality");
  Legality(out, folder, "batch", "kBatch");

  rows = Read(folder, "defects",
              "id level effect models from until until_date when why evidence lifted_by");
  Unique(rows, 0);
  text.clear();
  for (const Row& r : rows) {
    const std::vector<std::string>& f = r.fields;
    const std::string when = out.Conditions(r, f[7]);
    text.push_back(Quote(f[0]) + ", " + Pick(r, f[1], {{"refuse", "true"}, {"caution", "false"}}) +
                   ", DefectEffect::" +
                   Pick(r, f[2],
                        {{"silent", "kSilent"},
                         {"certain", "kCertain"},
                         {"hang", "kOther"},
                         {"crash", "kOther"},
                         {"slow", "kOther"},
                         {"log", "kOther"}}) +
                   ", " + Quote(f[2]) + ", " + Quote(f[3]) + ", " +
                   std::to_string(Version(r, f[4])) + ", " + std::to_string(Version(r, f[5])) +
                   ", " + std::to_string(Date(r, f[6])) + ", " + when + ", " + Quote(f[8]) + ", " +
                   Quote(f[9]) + ", " + QuoteOrEmpty(f[10]));
  }
  out.Array("DefectRow", "kDefects", text);

  rows = Read(folder, "stacks", "commit core date note");
  Unique(rows, 0);
  text.clear();
  for (const Row& r : rows) {
    text.push_back(Quote(r.fields[0]) + ", " + std::to_string(Version(r, r.fields[1])) + ", " +
                   std::to_string(Date(r, r.fields[2])));
  }
  out.Array("StackRow", "kStacks", text);

  rows = Read(folder, "kernel_evidence", "flag value from until evidence");
  text.clear();
  for (const Row& r : rows) {
    text.push_back(Quote(r.fields[0]) + ", " + Quote(r.fields[1]) + ", " +
                   std::to_string(Version(r, r.fields[2])) + ", " +
                   std::to_string(Version(r, r.fields[3])) + ", " + Quote(r.fields[4]));
  }
  out.Array("EvidenceRow", "kKernelEvidence", text);

  rows = Read(folder, "instrument", "op name value when why");
  text.clear();
  for (const Row& r : rows) {
    text.push_back("InstrumentRow::Op::" +
                   Pick(r, r.fields[0],
                        {{"set", "kSet"},
                         {"remove", "kRemove"},
                         {"redirect", "kRedirect"},
                         {"env", "kEnv"},
                         {"unset_env", "kUnsetEnv"}}) +
                   ", " + Quote(r.fields[1]) + ", " + QuoteOrEmpty(r.fields[2]) +
                   ", InstrumentRow::When::" +
                   Pick(r, r.fields[3],
                        {{"always", "kAlways"},
                         {"present", "kPresent"},
                         {"eval", "kEval"},
                         {"load", "kLoad"},
                         {"profile", "kProfile"}}) +
                   ", " + Quote(r.fields[4]));
  }
  out.Array("InstrumentRow", "kInstrument", text);

  rows = Read(folder, "paths", "name use");
  Unique(rows, 0);
  text.clear();
  for (const Row& r : rows) {
    text.push_back(
        Quote(r.fields[0]) + ", PathUse::" +
        Pick(r, r.fields[1], {{"read", "kRead"}, {"cache", "kCache"}, {"write", "kWrite"}}));
  }
  out.Array("PathRow", "kPaths", text);

  body
      << "\n}  // namespace\n\n"
         "const Rules& BuiltInRules() {\n"
         "  static const Rules rules{kFlags, kLevers, kEnv, kLegality, kBatch, kDefects, kStacks,\n"
         "                           kKernelEvidence, kInstrument, kPaths, {}, {}};\n"
         "  return rules;\n}\n\n}  // namespace attune\n";

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << body.str();
  file.close();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: attune_embed_rules FOLDER OUT.cc\n");
    return 2;
  }
  return Run(argv[1], argv[2]);
}
