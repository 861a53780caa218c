// What Decide may ask of the world. Wait is the only action that lets time pass.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "attune/model/event.h"

namespace attune {

struct Record {  // commit these facts, nothing else
  std::vector<Fact> facts;
};
struct Ask {};  // ask the proposer; the effect gates its reply and returns Proposed or TurnedBack
struct Submit {
  LaunchId launch;
};
struct Locate {  // fate unknown: look for the token, never repeat blindly
  LaunchId launch;
};
struct Cancel {  // carry out StopAsked for a run, or for all of a launch
  LaunchId launch;
  std::optional<RunId> run;
};
struct Collect {  // fetch what an ended run left (traces), diagnose it
  RunId run;
};
struct Ship {};
struct Notify {
  std::string what;
};
struct Wait {
  Instant until;
  int steps = 1;  // return after this many further steps of any run
};
struct Done {
  int code = 0;
  std::string why;
};

using Action = std::variant<Record, Ask, Submit, Locate, Cancel, Collect, Ship, Notify, Wait, Done>;

}  // namespace attune
