// Operators by own time: duration minus that of the operators inside. All there is in a trace
// without a GPU.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "attune/base/text.h"
#include "json_number.h"
#include "timeline.h"

namespace attune::traces {
namespace {

constexpr std::size_t kTopOperators = 15;

struct OperatorClass {
  std::string_view cls;
  std::array<std::string_view, 14> names;
};

// ATen operators that do the work themselves, by class. What is not listed is "other".
constexpr std::array<OperatorClass, 7> kClasses = {{
    {"gemm",
     {"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_addmm_activation", "addbmm", "addmv",
      "mv", "dot", "einsum"}},
    {"convolution",
     {"conv2d", "convolution", "_convolution", "mkldnn_convolution", "convolution_backward",
      "thnn_conv2d", "_slow_conv2d_forward", "_slow_conv2d_backward", "convolution_overrideable"}},
    {"normalisation",
     {"native_layer_norm", "native_layer_norm_backward", "layer_norm", "native_batch_norm",
      "native_batch_norm_backward", "batch_norm", "native_group_norm", "native_group_norm_backward",
      "rms_norm"}},
    {"softmax_loss",
     {"_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data",
      "nll_loss_forward", "nll_loss_backward", "cross_entropy_loss", "log_softmax", "softmax"}},
    {"embedding",
     {"embedding", "index_select", "gather", "scatter_add_", "index_put_",
      "embedding_dense_backward", "index", "scatter", "index_add_", "take"}},
    {"reduce",
     {"sum", "mean", "max", "min", "argmax", "norm", "any", "all", "prod", "cumsum",
      "linalg_vector_norm"}},
    {"copy",
     {"copy_", "cat", "clone", "contiguous", "fill_", "zero_", "_to_copy", "stack", "roll",
      "repeat", "to", "_cat"}},
}};

std::string_view ClassOfOperator(std::string_view name) {
  if (name.rfind("aten::", 0) != 0) {
    return name.rfind("autograd::", 0) == 0 || name.find("Backward") != std::string_view::npos
               ? "autograd"
               : "other";
  }
  const std::string_view op = name.substr(6);
  for (const OperatorClass& c : kClasses) {
    if (!op.empty() && std::find(c.names.begin(), c.names.end(), op) != c.names.end()) return c.cls;
  }
  static constexpr std::array<std::string_view, 24> kElementwise = {
      "add",  "add_",     "mul",      "mul_",          "sub",           "sub_",
      "div",  "div_",     "gelu",     "relu",          "relu_",         "tanh",
      "sqrt", "pow",      "exp",      "sigmoid",       "silu",          "where",
      "neg",  "addcmul_", "addcdiv_", "gelu_backward", "tanh_backward", "threshold_backward"};
  return std::find(kElementwise.begin(), kElementwise.end(), op) != kElementwise.end()
             ? "elementwise"
             : "other";
}

struct Own {
  std::int64_t count = 0, total = 0;
  std::vector<std::int64_t> each;
};

// Spans of one thread nest: an operator ends before its caller does.
std::map<std::uint32_t, Own> OwnTimes(std::vector<HostSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const HostSpan& a, const HostSpan& b) {
    return std::tie(a.thread, a.start, b.end, a.name) < std::tie(b.thread, b.start, a.end, b.name);
  });
  std::map<std::uint32_t, Own> own;
  struct Open {
    HostSpan span;
    std::int64_t inside = 0;
  };
  std::vector<Open> stack;
  const auto close = [&] {
    const Open top = stack.back();
    stack.pop_back();
    const std::int64_t duration = top.span.end - top.span.start;
    Own& o = own[top.span.name];
    const std::int64_t self = std::max<std::int64_t>(0, duration - top.inside);
    ++o.count;
    o.total += self;
    o.each.push_back(self);
    if (!stack.empty()) stack.back().inside += duration;
  };
  for (const HostSpan& s : spans) {
    while (!stack.empty() &&
           (stack.back().span.thread != s.thread || stack.back().span.end <= s.start)) {
      close();
    }
    stack.push_back({s, 0});
  }
  while (!stack.empty()) close();
  return own;
}

}  // namespace

std::string DisplayName(std::string_view raw, std::size_t max_bytes) {
  if (raw.find('\\') == std::string_view::npos) return EscapeForDisplay(raw, max_bytes);
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text += raw[i];
      continue;
    }
    const char c = raw[++i];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        text += c;
        break;
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'u': {
        // Characters of ASCII; the rest stays as written.
        const auto code = ParseUnsigned("0x" + std::string(raw.substr(i + 1, 4)));
        if (code && *code < 0x80 && i + 4 < raw.size()) {
          text += static_cast<char>(*code);
          i += 4;
        } else {
          text += "\\u";
        }
        break;
      }
      default:
        text += '\\';
        text += c;
    }
  }
  return EscapeForDisplay(text, max_bytes);
}

HostFigures AnalyseHost(const EventStore& store, const HostTimes& host,
                        const std::vector<StepMark>& steps) {
  HostFigures figures;
  figures.threads = static_cast<std::int64_t>(store.ThreadCount());
  figures.python_events = store.python_events;
  figures.events = store.host_events;
  std::int64_t from = std::numeric_limits<std::int64_t>::max();
  std::int64_t to = std::numeric_limits<std::int64_t>::min();
  if (steps.empty()) {
    for (const HostSpan& s : store.host) {
      if (s.kind != HostKind::kOperator) continue;
      from = std::min(from, s.start);
      to = std::max(to, s.end);
    }
  } else {
    // Neither first nor last of three or more, as on the GPU.
    const std::size_t skip = steps.size() >= 3 ? 1 : 0;
    from = steps[skip].start;
    to = steps[steps.size() - 1 - skip].end;
  }
  if (from >= to) return figures;
  figures.span = to - from;
  figures.optimizer = LengthWithin(host.optimizer, from, to);
  figures.data_loader = LengthWithin(host.data_loader, from, to);
  if (!store.gpu.empty()) return figures;

  std::vector<HostSpan> operators;
  std::vector<Interval> main;
  for (const HostSpan& s : store.host) {
    if (s.kind != HostKind::kOperator || s.start < from || s.end > to) continue;
    operators.push_back(s);
    if (s.thread == host.main_thread) main.push_back({s.start, s.end});
  }
  figures.operators = LengthWithin(Union(std::move(main)), from, to);
  std::map<std::string_view, ClassRow> classes;
  for (auto& [name, own] : OwnTimes(std::move(operators))) {
    const std::string_view text = store.names.Text(name);
    const std::string_view cls = ClassOfOperator(text);
    ClassRow& row = classes[cls];
    row.cls = cls;
    row.count += own.count;
    row.total += own.total;
    figures.top.push_back(
        {DisplayName(text), std::string(cls), own.count, own.total, Median(own.each)});
  }
  for (auto& [cls, row] : classes) figures.classes.push_back(std::move(row));
  std::sort(figures.classes.begin(), figures.classes.end(), [](const auto& a, const auto& b) {
    return std::tie(b.total, a.cls) < std::tie(a.total, b.cls);
  });
  std::sort(figures.top.begin(), figures.top.end(), [](const auto& a, const auto& b) {
    return std::tie(b.total, a.name) < std::tie(a.total, b.name);
  });
  if (figures.top.size() > kTopOperators) figures.top.resize(kTopOperators);
  return figures;
}

}  // namespace attune::traces
