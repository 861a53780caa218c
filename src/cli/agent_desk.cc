#include "agent_desk.h"

#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/campaign/campaign.h"
#include "attune/gates/rules.h"
#include "attune/os/files.h"

namespace attune::cli {
namespace {

constexpr std::int64_t kLogTail = 64 * 1024;  // read; the agent shows far less of it
constexpr int kCampaignsListed = 10;

// The end of a run's log: of its first rank, or of the rank after a slash ("r007/3").
Result<std::string> LogOf(const CampaignState& s, const Question& q) {
  const std::size_t slash = q.of.find('/');
  const RunRecord* run = s.FindRun(RunId{q.of.substr(0, slash)});
  if (run == nullptr || !run->started) {
    return Fail(ErrorCode::kNotFound, "no such run, or it has not started; ask for r007 or r007/3");
  }
  std::string file = "out";
  if (slash != std::string::npos) {
    const std::optional<std::int64_t> rank = ParseInt(q.of.substr(slash + 1));
    if (!rank || *rank < 0) return Fail(ErrorCode::kInvalidInput, "a rank is a number: r007/3");
    if (*rank > 0) file += fmt::format(".{}", *rank);
  }
  if (run->started->folder.empty()) return Fail(ErrorCode::kNotFound, "this run kept no log");
  Result<std::string> tail = os::ReadTail(run->started->folder + "/" + file, kLogTail);
  // The message would name a path of this machine.
  if (!tail) return Fail(ErrorCode::kNotFound, "the log can't be read");
  return tail;
}

std::string CampaignLine(const CampaignRow& row) {
  return fmt::format("{} {} {} {}", row.id.value, row.name, row.proposer, Word(row.phase));
}

Result<std::string> Listed(Store& store, const CampaignState& s) {
  ATTUNE_TRY(const std::vector<CampaignRow> rows, store.Campaigns());
  std::string text;
  int n = 0;
  for (const CampaignRow& row : rows) {
    if (row.id == s.id || !row.Ended()) continue;
    if (++n > kCampaignsListed) break;
    text += CampaignLine(row) + "\n";
  }
  return text.empty() ? std::string("no campaign has ended yet") : text;
}

// A past campaign on a page: what it was, what it found, its runs.
Result<std::string> PastCampaign(Store& store, const CampaignState& s, const Question& q) {
  if (q.of.empty()) return Listed(store, s);
  ATTUNE_TRY(const CampaignRow row, store.FindCampaign(q.of));
  if (row.id == s.id) return Fail(ErrorCode::kInvalidInput, "that is this campaign");
  ATTUNE_TRY(const std::vector<RunRow> runs, store.Runs(row.id, {}));
  std::string text = CampaignLine(row) + "\n" + row.phase_reason;
  for (const RunRow& run : runs) {
    if (run.purpose != Purpose::kCandidate) continue;
    text += fmt::format("\n{} {} {}{}{} | {}", run.id.value, run.label,
                        run.standing ? Word(*run.standing) : std::string_view("open"),
                        run.gain ? fmt::format(" {:+.1f}%", 100 * *run.gain) : std::string(),
                        run.score ? fmt::format(" {:.1f} tok/s/GPU", *run.score) : std::string(),
                        run.change);
  }
  return text;
}

// What general guides say of a lever: the claims that stand in one.
std::string GuideText(const CatalogLever& lever) {
  std::string text;
  for (const LeverEvidence& e : lever.evidence) {
    const bool guide = e.source.find("guide") != std::string::npos ||
                       e.source.find("README") != std::string::npos ||
                       e.source.find("docs/") != std::string::npos;
    if (guide) text += (text.empty() ? "" : "; ") + e.claim;
  }
  return text;
}

std::string NoteText(const CatalogLever& lever) {
  std::string text = lever.title + ". " + lever.when + " Costs: " + lever.costs;
  if (!lever.helps.empty()) text += " Answers " + Join(lever.helps, ", ") + ".";
  return text;
}

void AddCatalog(const Recipe& recipe, const Catalog& catalog, AgentDesk& desk) {
  if (recipe.framework != Framework::kMegatronLm) return;
  // In the order of the levers' table: what moves most stands first and is cut last.
  for (const LeverOffer& offer : desk.levers) {
    const CatalogLever* lever = catalog.Find(offer.id);
    if (lever != nullptr) desk.catalog.push_back({offer.id, NoteText(*lever), GuideText(*lever)});
  }
}

bool IsOffered(const AgentDesk& desk, const std::string& lever) {
  return std::any_of(desk.levers.begin(), desk.levers.end(),
                     [&](const LeverOffer& offer) { return offer.id == lever; });
}

std::string Percent(double gain) { return fmt::format("{:+.0f}%", 100 * gain); }

// In quotes that nothing in it ends: a lesson is data.
std::string Quoted(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  return '"' + text + '"';
}

std::string LessonLine(const Lesson& lesson) {
  return fmt::format("{} {}: {} to {}: {}; when {}; seen on {}", lesson.id, lesson.lever,
                     Percent(lesson.effect_lo), Percent(lesson.effect_hi), Quoted(lesson.direction),
                     Quoted(lesson.condition), Quoted(lesson.scope));
}

std::string PairLine(std::string_view word, const Lesson::Pair& pair) {
  return fmt::format("\n{}: {} {} against {}", word, pair.campaign, pair.run, pair.parent);
}

// What earlier campaigns showed of the levers that this recipe has.
void AddLessons(const Skill& skill, AgentDesk& desk) {
  for (const Lesson& lesson : skill.lessons) {
    if (IsOffered(desk, lesson.lever)) desk.lessons.push_back(LessonLine(lesson));
  }
  if (desk.lessons.empty()) return;
  desk.answers["lesson"] = [&skill](const CampaignState&,
                                    const Question& q) -> Result<std::string> {
    const Lesson* lesson = skill.FindLesson(q.of);
    if (lesson == nullptr) return Fail(ErrorCode::kNotFound, "no such lesson; ask for L0001");
    std::string text = LessonLine(*lesson);
    text += fmt::format("\nstatus {}, distilled from {}", lesson->status, lesson->origin);
    for (const Lesson::Pair& pair : lesson->evidence) text += PairLine("says so", pair);
    for (const Lesson::Pair& pair : lesson->counter) text += PairLine("says otherwise", pair);
    return text;
  };
}

// The whole entry: every move with what it needs, and the evidence.
Result<std::string> CatalogEntry(const Catalog& catalog, const Question& q) {
  const CatalogLever* lever = catalog.Find(q.of);
  if (lever == nullptr) return Fail(ErrorCode::kNotFound, "the catalog has no such lever");
  std::string text = NoteText(*lever);
  for (const LeverMove& move : lever->moves) {
    std::vector<std::string> edits, needs;
    for (const Edit& edit : move.edits) {
      const bool off = edit.op == Edit::Op::kUnset || edit.op == Edit::Op::kUnsetEnv;
      edits.push_back(edit.name + (off ? " off" : " " + Join(edit.values, " ")));
    }
    for (const JobCondition& need : move.needs) needs.push_back(need.Text());
    text += fmt::format("\nmove {}: {}", move.name, Join(edits, "; "));
    if (!needs.empty()) text += "; needs " + Join(needs, ", ");
  }
  for (const LeverEvidence& e : lever->evidence) {
    text += fmt::format("\nevidence: {} ({})", e.claim, e.source);
  }
  return text;
}

}  // namespace

AgentDesk MakeDesk(Store* store, const CampaignState& state, const Skill& skill) {
  const Recipe& recipe = state.recipe;
  AgentDesk desk;
  desk.levers = LeverOffersOf(recipe);
  desk.reserve = Reserve;
  desk.rules = skill.rules;
  AddCatalog(recipe, skill.catalog, desk);
  AddLessons(skill, desk);
  // A simulated job's log lies in no folder; what it says is in its run and diagnosis.
  if (!state.opened || state.opened->world.empty()) desk.answers["log"] = LogOf;
  if (recipe.framework == Framework::kMegatronLm) {
    desk.answers["catalog"] = [&skill](const CampaignState&, const Question& q) {
      return CatalogEntry(skill.catalog, q);
    };
    desk.answers["estimate"] = EstimateFor;
  }
  if (store != nullptr) {
    desk.answers["campaign"] = [store](const CampaignState& s, const Question& q) {
      return PastCampaign(*store, s, q);
    };
  }
  return desk;
}

Result<Skill> ReadSkill(const std::string& folder) {
  ATTUNE_TRY(Skill skill, LoadSkill(folder));
  const auto check = [&](const std::string& lever, const std::string& where) -> Status {
    const Rules& rules = BuiltInRules();
    const bool known = std::any_of(rules.levers.begin(), rules.levers.end(),
                                   [&](const LeverRow& row) { return row.lever == lever; });
    if (known) return {};
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: {} speaks of '{}', which is no lever", EscapeForDisplay(folder),
                            where, EscapeForDisplay(lever, 60)),
                "attune levers list");
  };
  for (const CatalogLever& lever : skill.catalog.levers) {
    ATTUNE_RETURN_IF_ERROR(check(lever.lever, "the catalog"));
  }
  for (const Lesson& lesson : skill.lessons) {
    ATTUNE_RETURN_IF_ERROR(check(lesson.lever, "lesson " + lesson.id));
  }
  return skill;
}

Result<SkillInUse> SkillOf(const Opened& opened) {
  SkillInUse skill;
  if (!opened.policy.skill.empty()) {
    ATTUNE_TRY(Skill own, ReadSkill(opened.policy.skill));
    skill.own = std::make_unique<const Skill>(std::move(own));
  }
  const std::string& version = skill.Get().version;
  if (opened.skill_version.empty() || opened.skill_version == version) return skill;
  return Fail(
      ErrorCode::kInvalidInput,
      fmt::format("the campaign began with skill {}, {} is {} now", opened.skill_version,
                  skill.own ? EscapeForDisplay(opened.policy.skill) : "this program's", version),
      skill.own ? "give the folder its files back, or start a new campaign"
                : "resume it with the program that began it, or start a new campaign");
}

}  // namespace attune::cli
