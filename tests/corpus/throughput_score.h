// How far predictions are from what was published: the bars of the corpus kind `throughput`, and
// what the fit minimises.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "throughput_rows.h"

namespace attune::corpus {

struct Prediction {
  bool modelled = false;
  bool fits = true;
  double tokens = 0;           // a second and GPU
  double peak = 0, limit = 0;  // bytes of the fullest rank
};

std::vector<Prediction> Predict(
    std::span<const ThroughputRow> rows, const sim::Coefficients& c,
    const std::function<sim::StackProfile(const ThroughputRow&)>& stack);

// Relative error, predicted over published minus 1; nullopt where one is missing or the row was
// OOM.
std::optional<double> ErrorOf(const ThroughputRow& row, const Prediction& p);

struct Score {
  int compared = 0;
  double median = 0, p90 = 0, mean = 0;  // of absolute errors
  int pairs = 0, pairs_right = 0;
  int stated_pairs = 0, stated_right = 0;  // of them, where both rows state what differs
  int ooms = 0, ooms_right = 0, ran = 0, ran_wrong = 0;
};
Score ScoreOf(std::span<const ThroughputRow> rows, std::span<const Prediction> predictions);

double MedianOf(std::vector<double> values);              // 0 of nothing
double QuantileOf(std::vector<double> values, double q);  // nearest rank
// Spearman's rank correlation, ties at their mean rank; 0 below two values.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace attune::corpus
