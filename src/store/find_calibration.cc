// What a new campaign may take over of an earlier one (docs/decisions/0035).
#include <fmt/core.h>

#include <utility>
#include <variant>

#include "attune/store/store.h"
#include "event_json.h"
#include "impl.h"

namespace attune {
namespace {

// Whether two campaigns of one recipe and stack measure the same baseline.
bool SameBaseline(const Opened& then, const Opened& now) {
  return then.world.empty() && now.world.empty() && then.attune_version == now.attune_version &&
         then.start_iteration == now.start_iteration && then.checkpoint == now.checkpoint &&
         then.checkpoint_files == now.checkpoint_files;
}

template <class F>
Result<F> FactAs(const std::string& word, const std::string& body) {
  ATTUNE_TRY(Fact fact, DecodeFact(word, body));
  if (F* wanted = std::get_if<F>(&fact)) return std::move(*wanted);
  return Fail(ErrorCode::kCorrupt, "a row points to another kind of event than it should");
}

// Of the runs that a calibration was made from, in its order.
Result<std::vector<double>> ScoresOf(sql::Connection& db, const CampaignId& campaign,
                                     const std::vector<RunId>& runs) {
  std::vector<double> scores;
  for (const RunId& run : runs) {
    ATTUNE_TRY(sql::Rows rows,
               db.Select("SELECT score FROM measurement WHERE campaign = ? AND run = ?"
                         " AND score IS NOT NULL",
                         campaign, run));
    ATTUNE_TRY(const bool found, rows.Next());
    if (!found) {
      return Fail(ErrorCode::kCorrupt, fmt::format("run {} of {} was calibrated with and has no"
                                                   " measurement",
                                                   run.value, campaign.value));
    }
    scores.push_back(rows.Real(0));
  }
  return scores;
}

}  // namespace

Result<std::optional<EarlierCalibration>> Store::FindCalibration(const Opened& opening,
                                                                 Instant since, Instant until) {
  sql::Connection& db = impl_->database.connection();
  ATTUNE_TRY(
      sql::Rows rows,
      db.Select("SELECT c.campaign, c.at_ms, made.kind, made.body, first.kind, first.body"
                " FROM calibration c"
                " JOIN campaign ON campaign.id = c.campaign"
                " JOIN event made ON made.campaign = c.campaign AND made.seq = c.seq"
                " JOIN event first ON first.campaign = c.campaign AND first.seq = 1"
                " WHERE campaign.recipe_hash = ? AND campaign.stack_fingerprint = ?"
                " AND campaign.recipe_path = ? AND c.at_ms BETWEEN ? AND ?"
                " ORDER BY c.at_ms DESC",
                opening.recipe_hash, opening.stack_fingerprint, opening.recipe_path, since, until));
  for (;;) {
    ATTUNE_TRY(const bool more, rows.Next());
    if (!more) return std::optional<EarlierCalibration>();
    ATTUNE_TRY(Calibrated made, FactAs<Calibrated>(rows.Text(2), rows.Text(3)));
    ATTUNE_TRY(const Opened then, FactAs<Opened>(rows.Text(4), rows.Text(5)));
    if (!made.reused.empty() || !SameBaseline(then, opening)) continue;
    EarlierCalibration earlier;
    earlier.campaign = CampaignId{rows.Text(0)};
    earlier.at = Instant{rows.Int(1)};
    ATTUNE_TRY(earlier.scores, ScoresOf(db, earlier.campaign, made.calibration.runs));
    earlier.calibration = std::move(made.calibration);
    return std::optional<EarlierCalibration>(std::move(earlier));
  }
}

}  // namespace attune
