#pragma once

#include <memory>

#include "command.h"

namespace attune::cli {

std::unique_ptr<Command> MakeCheck();
std::unique_ptr<Command> MakeComplete();
std::unique_ptr<Command> MakeCompletion();
std::unique_ptr<Command> MakeConfig();
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeExplain();
std::unique_ptr<Command> MakeExport();
std::unique_ptr<Command> MakeGate();
std::unique_ptr<Command> MakeDb();
std::unique_ptr<Command> MakeDiagnose();
std::unique_ptr<Command> MakeHelp();
std::unique_ptr<Command> MakeInit();
std::unique_ptr<Command> MakeLevers();
std::unique_ptr<Command> MakePlan();
std::unique_ptr<Command> MakeLogs();
std::unique_ptr<Command> MakeReport();
std::unique_ptr<Command> MakeResume();
std::unique_ptr<Command> MakeRetry();
std::unique_ptr<Command> MakeRun();
std::unique_ptr<Command> MakeRuns();
std::unique_ptr<Command> MakeSchema();
std::unique_ptr<Command> MakeShow();
std::unique_ptr<Command> MakeBench();
std::unique_ptr<Command> MakeSim();
std::unique_ptr<Command> MakeSimTrain();
std::unique_ptr<Command> MakeStatus();
std::unique_ptr<Command> MakeStop();

}  // namespace attune::cli
