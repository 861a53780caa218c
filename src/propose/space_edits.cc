// How a candidate is spelt: edits of the leader's arguments, a label, a sentence.
#include <fmt/core.h>

#include <set>

#include "attune/base/text.h"
#include "space.h"

namespace attune::rules {
namespace {

constexpr std::string_view kTp = "--tensor-model-parallel-size";
constexpr std::string_view kPp = "--pipeline-model-parallel-size";
constexpr std::string_view kEp = "--expert-model-parallel-size";
constexpr std::string_view kEtp = "--expert-tensor-parallel-size";
constexpr std::string_view kCp = "--context-parallel-size";
constexpr std::string_view kVp = "--num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kVpLayers = "--num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kFirst = "--decoder-first-pipeline-num-layers";
constexpr std::string_view kLast = "--decoder-last-pipeline-num-layers";
constexpr std::string_view kAccountEmbedding = "--account-for-embedding-in-pipeline-split";
constexpr std::string_view kAccountLoss = "--account-for-loss-in-pipeline-split";
constexpr std::string_view kLayout = "--pipeline-model-parallel-layout";
constexpr std::string_view kMbs = "--micro-batch-size";
constexpr std::string_view kSp = "--sequence-parallel";
constexpr std::string_view kTpOverlap = "--tp-comm-overlap";
constexpr std::string_view kVocabUnit = "--make-vocab-size-divisible-by";

// Only what spells the change: edits of flags that are there.
class Editor {
 public:
  Editor(const Effective& from, std::vector<Edit>& out) : from_(from), out_(out) {}
  void Set(std::string_view flag, std::int64_t value) {
    const std::string text = std::to_string(value);
    if (from_.args.Value(std::string(flag)) == text) return;
    out_.push_back({Edit::Op::kSet, std::string(flag), {text}});
  }
  void On(std::string_view flag) {
    if (from_.args.Find(std::string(flag)) != nullptr) return;
    out_.push_back({Edit::Op::kSet, std::string(flag), {}});
  }
  void Off(std::string_view flag) {
    if (from_.args.Find(std::string(flag)) == nullptr) return;
    out_.push_back({Edit::Op::kUnset, std::string(flag), {}});
  }

 private:
  const Effective& from_;
  std::vector<Edit>& out_;
};

}  // namespace

std::vector<Edit> Space::EditsOf(const Part& part, const TrainingJob& job) const {
  std::vector<Edit> out;
  if (part.move != nullptr) return Effects(leader_, part.move->edits);
  Editor edit(leader_, out);
  const Sizes& s = part.sizes;
  if (s.tp) {
    edit.Set(kTp, *s.tp);
    if (*s.tp == 1) {
      edit.Off(kSp);
      edit.Off(kTpOverlap);
    } else {
      edit.On(kSp);
    }
    if (job.batch.padded_vocab > 0 && job.shape.vocab > 0) {
      const std::int64_t now =
          ParseInt(leader_.args.Value(std::string(kVocabUnit)).value_or("128")).value_or(128);
      const auto padded = [&](std::int64_t unit) {
        return (job.shape.vocab + unit - 1) / unit * unit;
      };
      // The padded vocabulary is part of the model: the unit follows, so that it stays.
      const std::int64_t unit = now * job_.layout.tp;
      if (padded(now * *s.tp) != job_.batch.padded_vocab && unit % *s.tp == 0) {
        edit.Set(kVocabUnit, unit / *s.tp);
      }
    }
  }
  const bool etp_follows = leader_.args.Find(std::string(kEtp)) == nullptr;
  if (job.shape.experts > 0 && (s.etp || (s.tp && etp_follows && job.layout.etp != *s.tp))) {
    edit.Set(kEtp, job.layout.etp);
  }
  if (s.pp) edit.Set(kPp, *s.pp);
  if (s.ep) edit.Set(kEp, *s.ep);
  if (s.cp) edit.Set(kCp, *s.cp);
  if (s.vp) {
    edit.Off(kVpLayers);
    if (*s.vp > 1) {
      edit.Set(kVp, *s.vp);
    } else {
      edit.Off(kVp);
    }
  }
  if (s.mbs) edit.Set(kMbs, *s.mbs);
  if (s.pp || s.first) edit.Off(kLayout);
  if (s.first) {
    if (*s.first > 0) {
      edit.Set(kFirst, *s.first);
      edit.Set(kLast, s.last.value_or(0));
      edit.Off(kAccountEmbedding);
      edit.Off(kAccountLoss);
    } else {
      edit.Off(kFirst);
      edit.Off(kLast);
    }
  }
  return out;
}

Change Space::ChangeOf(const Candidate& candidate) const {
  Change change;
  std::set<std::string> names;
  for (const Part& part : candidate.parts) {
    if (change.lever.empty()) {
      change.lever = part.lever->lever;
    } else {
      change.enablers.push_back(part.lever->lever);
    }
    for (Edit& e : EditsOf(part, candidate.job)) {
      if (names.insert(e.name).second) change.edits.push_back(std::move(e));
    }
  }
  return change;
}

namespace {

struct Word {
  std::string_view letters, name;
  std::optional<std::int64_t> value;
  std::int64_t was;
};

std::vector<Word> WordsOf(const Sizes& s, const TrainingJob& job) {
  const Layout& l = job.layout;
  return {{"tp", "TP", s.tp, l.tp},
          {"pp", "PP", s.pp, l.pp},
          {"ep", "EP", s.ep, l.ep},
          {"etp", "ETP", s.etp, l.etp},
          {"cp", "CP", s.cp, l.cp},
          {"vp", "VP", s.vp, l.vp},
          {"mbs", "micro-batch", s.mbs, job.batch.mbs}};
}

}  // namespace

std::string Space::LabelOf(const Candidate& candidate) const {
  if (candidate.stack) return "stack";
  std::string label;
  const auto add = [&](std::string_view word) {
    if (!label.empty()) label += '.';
    label += word;
  };
  for (const Part& part : candidate.parts) {
    if (part.move != nullptr) {
      std::string word = part.move->name;
      if (word == "on" || word == "off" || word == "both") word = part.lever->lever + "-" + word;
      add(word);
      continue;
    }
    for (const Word& w : WordsOf(part.sizes, job_)) {
      if (w.value) add(fmt::format("{}{}", w.letters, *w.value));
    }
    if (part.sizes.first) {
      add(*part.sizes.first > 0
              ? fmt::format("s{}-{}", *part.sizes.first, part.sizes.last.value_or(0))
              : std::string("even"));
    }
  }
  for (char& c : label) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (!fine) c = '-';
  }
  return label.substr(0, 24);
}

std::string Space::Describe(const Candidate& candidate) const {
  std::vector<std::string> words;
  for (const Part& part : candidate.parts) {
    if (part.move != nullptr) {
      words.push_back(part.lever->lever + " " + part.move->name);
      continue;
    }
    for (const Word& w : WordsOf(part.sizes, job_)) {
      if (w.value) words.push_back(fmt::format("{} {} -> {}", w.name, w.was, *w.value));
    }
    if (part.sizes.first) {
      words.push_back(*part.sizes.first > 0
                          ? fmt::format("first and last stage {} and {} layers", *part.sizes.first,
                                        part.sizes.last.value_or(0))
                          : std::string("layers split evenly"));
    }
  }
  return Join(words, ", ");
}

}  // namespace attune::rules
