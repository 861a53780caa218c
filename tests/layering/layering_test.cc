#include <gtest/gtest.h>

#include <string>

#include "attune/base/text.h"
#include "case_files.h"
#include "layers.h"
#include "source_tree.h"

namespace attune::layering {
namespace {

const SourceTree& Project() {
  static const SourceTree tree = ReadTree(ATTUNE_SOURCE_DIR, {"include", "src", "gates", "tests"});
  return tree;
}

std::string Listed(const Complaints& complaints) { return "\n  " + Join(complaints, "\n  "); }

#define EXPECT_NO_COMPLAINT(complaints)      \
  do {                                       \
    const Complaints all = (complaints);     \
    EXPECT_TRUE(all.empty()) << Listed(all); \
  } while (false)

TEST(Project, IsReadInFull) {
  EXPECT_TRUE(Project().contains("include/attune/base/result.h"));
  EXPECT_TRUE(Project().contains("src/base/text.cc"));
  EXPECT_TRUE(Project().contains("tests/layering/layering_test.cc"));
}
TEST(Project, KeepsItsLayers) { EXPECT_NO_COMPLAINT(CheckLayers(Project())); }
TEST(Project, IncludesForeignHeadersWhereTheyBelong) {
  EXPECT_NO_COMPLAINT(CheckForeignHeaders(Project()));
}
TEST(Project, CallsTheOutsideWhereItMay) { EXPECT_NO_COMPLAINT(CheckForbiddenCalls(Project())); }
TEST(Project, HasOnlySharedHeadersInInclude) { EXPECT_NO_COMPLAINT(CheckPublicHeaders(Project())); }
TEST(Project, BuildsEveryFileAndLinksWhatItIncludes) {
  EXPECT_NO_COMPLAINT(CheckBuildFiles(Project()));
}
TEST(Project, ReadsEveryCaseFile) { EXPECT_NO_COMPLAINT(UnreadCaseFiles(Project())); }

// Small trees that break one rule each: a checker that finds nothing anywhere would pass above.
using Check = Complaints (*)(const SourceTree&);

void ExpectOne(Check check, const SourceTree& tree, const std::string& wanted) {
  const Complaints complaints = check(tree);
  ASSERT_EQ(complaints.size(), 1U) << wanted << Listed(complaints);
  EXPECT_NE(complaints[0].find(wanted), std::string::npos) << complaints[0];
}

SourceTree One(const std::string& path, const std::string& include) {
  return {{path, "#include " + include + "\n"}};
}

TEST(IncludesOf, FindsEverySpelling) {
  const std::vector<Include> includes = IncludesOf(
      "#include <a.h>\n  #  include \"b/c.h\"  // why\n// #include <no>\nint include;\n#define "
      "X\n");
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[0].name, "a.h");
  EXPECT_FALSE(includes[0].quoted);
  EXPECT_EQ(includes[1].name, "b/c.h");
  EXPECT_TRUE(includes[1].quoted);
  EXPECT_EQ(includes[1].line, 2);
}

TEST(CheckLayers, RefusesEachUpwardInclude) {
  ExpectOne(CheckLayers, One("src/logs/a.cc", "\"attune/store/store.h\""),
            "src/logs/a.cc:1: logs may not include store");
  ExpectOne(CheckLayers, One("gates/config_check.cc", "\"attune/skill/skill.h\""),
            "gates may not include skill");
  ExpectOne(CheckLayers, One("include/attune/base/a.h", "\"attune/model/run.h\""),
            "base may not include model");
  // The table is not transitive.
  ExpectOne(CheckLayers, One("src/report/a.cc", "\"attune/launch/launcher.h\""),
            "report may not include launch");
  ExpectOne(CheckLayers, One("src/store/a.cc", "\"attune/os/files.h\""),
            "store may not include os");
}

TEST(CheckLayers, LetsTheTablePass) {
  EXPECT_NO_COMPLAINT(CheckLayers(One("src/logs/a.cc", "\"attune/model/run.h\"")));
  EXPECT_NO_COMPLAINT(CheckLayers(One("src/logs/a.cc", "\"attune/logs/log_parser.h\"")));
  EXPECT_NO_COMPLAINT(CheckLayers(One("src/logs/a.cc", "\"attune/base/log.h\"")));
  EXPECT_NO_COMPLAINT(CheckLayers(One("src/cli/main.cc", "\"attune/store/store.h\"")));
  EXPECT_NO_COMPLAINT(CheckLayers(One("gates/a.cc", "\"attune/stats/stats.h\"")));
}

TEST(CheckLayers, GivesTheGatesFiveHeadersOfBase) {
  for (const char* header : {"units.h", "ids.h", "text.h", "check.h", "result.h"}) {
    EXPECT_NO_COMPLAINT(
        CheckLayers(One("gates/a.cc", "\"attune/base/" + std::string(header) + "\"")));
  }
  for (const char* header : {"clock.h", "log.h", "random.h"}) {
    ExpectOne(CheckLayers, One("gates/a.cc", "\"attune/base/" + std::string(header) + "\""),
              "gates may not include attune/base/" + std::string(header));
  }
  ExpectOne(CheckLayers, One("src/model/a.cc", "\"attune/base/clock.h\""),
            "model may not include attune/base/clock.h");
}

TEST(CheckLayers, KnowsEveryPart) {
  ExpectOne(CheckLayers, One("src/misc/a.cc", "<string>"), "'misc' has no row");
}

TEST(CheckLayers, RefusesWaysAroundTheIncludePaths) {
  for (const char* include :
       {"\"../store/statement.h\"", "\"src/store/statement.h\"", "\"b.cc\""}) {
    ExpectOne(CheckLayers, One("src/logs/a.cc", include), "goes around the include paths");
  }
}

TEST(CheckForeignHeaders, RefusesEachOutsideItsPlace) {
  const std::pair<const char*, const char*> wrong[] = {
      {"src/base/text.cc", "<spdlog/spdlog.h>"},
      {"src/campaign/a.cc", "<CLI/CLI.hpp>"},
      {"src/campaign/a.cc", "<yaml-cpp/yaml.h>"},
      {"src/report/a.cc", "<sqlite3.h>"},
      {"src/llm/a.cc", "<curl/curl.h>"},
      {"src/model/a.cc", "<nlohmann/json.hpp>"},
      {"gates/a.cc", "<nlohmann/json_fwd.hpp>"},
      {"src/logs/a.cc", "<regex>"},
      {"src/propose/a.cc", "<random>"},
      {"src/store/a.cc", "<iostream>"},
      {"src/store/a.cc", "<gtest/gtest.h>"},
      {"gates/a.cc", "<fstream>"},
      {"gates/a.cc", "<sys/stat.h>"},
      {"src/stats/a.cc", "<thread>"},
      {"src/model/a.cc", "<filesystem>"},
      {"src/store/a.cc", "<re2/re2.h>"},
  };
  for (const auto& [path, include] : wrong) {
    ExpectOne(CheckForeignHeaders, One(path, include), "does not belong here");
  }
}

TEST(CheckForeignHeaders, RefusesHeavyOnesInHeaders) {
  ExpectOne(CheckForeignHeaders, One("src/store/a.h", "<nlohmann/json.hpp>"), "in .cc files only");
  ExpectOne(CheckForeignHeaders, One("src/cli/a.h", "<CLI/CLI.hpp>"), "in .cc files only");
  ExpectOne(CheckForeignHeaders, One("src/skill/a.h", "<yaml-cpp/yaml.h>"), "in .cc files only");
}

TEST(CheckForeignHeaders, LetsEachStandInItsPlace) {
  const std::pair<const char*, const char*> right[] = {
      {"src/base/log.cc", "<spdlog/spdlog.h>"},
      {"src/cli/main.cc", "<CLI/CLI.hpp>"},
      {"src/recipe_io/a.cc", "<yaml-cpp/yaml.h>"},
      {"src/skill/a.cc", "<yaml-cpp/yaml.h>"},
      {"src/store/statement.h", "<sqlite3.h>"},
      {"src/os/http.cc", "<curl/curl.h>"},
      {"src/store/a.cc", "<nlohmann/json.hpp>"},
      {"src/store/a.h", "<nlohmann/json_fwd.hpp>"},
      {"tests/unit/base/a_test.cc", "<gtest/gtest.h>"},
      {"gates/a.cc", "<fmt/core.h>"},
  };
  for (const auto& [path, include] : right) {
    EXPECT_NO_COMPLAINT(CheckForeignHeaders(One(path, include)));
  }
}

TEST(CheckForbiddenCalls, SeesCodeAndNotComments) {
  const auto code = [](const std::string& path, const std::string& line) {
    return SourceTree{{path, "\n" + line + "\n"}};
  };
  ExpectOne(CheckForbiddenCalls, code("gates/a.cc", "auto t = std::chrono::system_clock::now();"),
            "gates/a.cc:2: _clock::now(");
  ExpectOne(CheckForbiddenCalls, code("gates/a.cc", "std::getenv(\"HOME\");"), "getenv(");
  ExpectOne(CheckForbiddenCalls, code("src/launch/a.cc", "FILE* f = popen(c, \"r\");"), "popen(");
  ExpectOne(CheckForbiddenCalls, code("src/store/a.cc", "std::cerr << x;"), "std::cerr");
  EXPECT_NO_COMPLAINT(CheckForbiddenCalls(code("gates/a.cc", "// never getenv(), never popen()")));
  EXPECT_NO_COMPLAINT(CheckForbiddenCalls(code("src/os/a.cc", "steady_clock::now();")));
}

TEST(CheckForeignHeaders, TheRowsGeneratorIsNoPartOfTheGates) {
  EXPECT_NO_COMPLAINT(CheckForeignHeaders({{"gates/rules/embed.cc", "#include <fstream>\n"}}));
  EXPECT_FALSE(CheckForeignHeaders({{"gates/rules.cc", "#include <fstream>\n"}}).empty());
}

TEST(CheckPublicHeaders, RefusesAHeaderThatOnlyItsOwnPartIncludes) {
  SourceTree tree = {{"include/attune/logs/inner.h", ""},
                     {"src/logs/a.cc", "#include \"attune/logs/inner.h\"\n"},
                     {"tests/unit/logs/a_test.cc", "#include \"attune/logs/inner.h\"\n"}};
  ExpectOne(CheckPublicHeaders, tree, "include/attune/logs/inner.h: no other part includes it");
  tree["src/campaign/a.cc"] = "#include \"attune/logs/inner.h\"\n";
  EXPECT_NO_COMPLAINT(CheckPublicHeaders(tree));
}

TEST(CheckPublicHeaders, CountsWhatASharedHeaderIncludes) {
  const SourceTree tree = {{"include/attune/logs/a.h", "#include \"attune/logs/b.h\"\n"},
                           {"include/attune/logs/b.h", ""},
                           {"src/campaign/a.cc", "#include \"attune/logs/a.h\"\n"}};
  EXPECT_NO_COMPLAINT(CheckPublicHeaders(tree));
}

TEST(CheckBuildFiles, RefusesAFileThatIsNotBuilt) {
  ExpectOne(CheckBuildFiles,
            {{"src/logs/CMakeLists.txt", "attune_part(NAME logs DEPS model SOURCES a.cc)"},
             {"src/logs/forgotten.cc", ""},
             {"src/logs/a.cc", ""}},
            "src/logs/forgotten.cc: no CMakeLists.txt lists it");
  ExpectOne(CheckBuildFiles, {{"tests/unit/logs/a_test.cc", ""}}, "never built");
  EXPECT_NO_COMPLAINT(
      CheckBuildFiles({{"gates/CMakeLists.txt", "rules/embed.cc"}, {"gates/rules/embed.cc", ""}}));
}

TEST(CheckBuildFiles, RefusesAnIncludeThatIsNotLinked) {
  const std::string include = "#include \"attune/stats/stats.h\"\n";
  ExpectOne(CheckBuildFiles,
            {{"gates/CMakeLists.txt", "attune_part(\n  NAME gates\n  DEPS model\n  SOURCES a.cc)"},
             {"gates/a.cc", include}},
            "'stats' is missing in DEPS");
  EXPECT_NO_COMPLAINT(CheckBuildFiles(
      {{"gates/CMakeLists.txt", "attune_part(\n  NAME gates\n  DEPS model stats\n  SOURCES a.cc)"},
       {"gates/a.cc", include}}));
}

TEST(CheckBuildFiles, RefusesADependencyThatTheTableForbids) {
  ExpectOne(CheckBuildFiles,
            {{"src/store/CMakeLists.txt", "attune_part(NAME store DEPS model os SOURCES)"}},
            "store may not depend on os");
}

TEST(UnreadCaseFiles, RefusesAFileThatNoTestNames) {
  SourceTree tree = {{"tests/cases/gates/a.case", "x"},
                     {"tests/unit/gates/CMakeLists.txt", ""},
                     {"tests/cases/README.md", "tests/cases/gates .case"}};
  EXPECT_EQ(UnreadCaseFiles(tree).size(), 2U);
  tree["tests/unit/gates/cases_test.cc"] =
      "Files(\"cases/gates\", \".case\"); Text(\"cases/README.md\");";
  EXPECT_NO_COMPLAINT(UnreadCaseFiles(tree));
}

TEST(UnreadCaseFiles, AFolderIsReadOnlyForTheEndingsItsRunnerNames) {
  const SourceTree tree = {
      {"tests/cases/gates/a.case", ""},
      {"tests/cases/gates/a.txt", ""},
      {"tests/cases/gates_old/a.case", ""},
      {"tests/unit/gates/cases_test.cc", "Files(\"cases/gates\", \".case\");"}};
  EXPECT_EQ(UnreadCaseFiles(tree),
            (Complaints{"tests/cases/gates/a.txt", "tests/cases/gates_old/a.case"}));
}

}  // namespace
}  // namespace attune::layering
