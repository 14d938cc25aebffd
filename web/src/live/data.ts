// What the live page is given every few seconds; see viewer/live_data.py.
import type { Estimate } from "../sweep/data";

export interface Row {
  key: string;
  planner: string;
  domain: string;
  task: string;
  model: string;
  seed: number;
  status: "done" | "failed";
  success: boolean | null;
  seconds: number;
  tokens: number;
  error: string | null;
  ended: number;
  traced: boolean;
}

export interface GroupSoFar extends Pick<Estimate, "value" | "low" | "high" | "reason"> {
  planner: string;
  domain: string;
  done: number;
  failed: number;
  judged: number;
  won: number;
}

export interface Load {
  running: number;
  waiting: number;
  written_tokens: number;
  prompt_tokens: number;
  cached_tokens: number;
  preempted: number;
  stepping_seconds: number;
  waiting_seconds: number;
}

export type Process =
  | { state: "absent" }
  | { state: "unreadable"; said: string }
  | {
      state: "running" | "silent";
      written: number;
      running: number;
      retried: number;
      lost: number;
      seconds: number;
      left: number | null;
      load: Load;
    };

export interface LiveData {
  name: string;
  confidence: number;
  now: number;
  total: number;
  done: number;
  failed: number;
  won: number;
  judged: number;
  retrying: number;
  spent: { calls: number; prompt_tokens: number; completion_tokens: number; cached_tokens: number };
  groups: GroupSoFar[];
  newest: Row[];
  errors: [string, number][];
  other_errors: number;
  rate: { span: number; over: number; counts: number[] };
  process: Process;
  wait: number;
}
