// Sends one scenario at a constant arrival rate, whether or not earlier calls have returned.
//
// PLAN names a JSON file, written by k6_load.py:
//   {"address", "proto_dir", "method", "requests": [...], "expect": [path, value or null],
//    "rate_per_s", "seconds", "users"}
// A first scenario lets every user connect and call a few times, so that none of that is
// measured; both share one pool of users, since the second starts when the first is over.

import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { Counter } from "k6/metrics";
import grpc from "k6/net/grpc";

const [plan] = new SharedArray("plan", () => {
  const { requests, ...rest } = JSON.parse(open(__ENV.PLAN));
  return [rest];
});
const requests = new SharedArray("requests", () => JSON.parse(open(__ENV.PLAN)).requests);

const CONNECT_S = 2;
const CALLS_BEFORE = 3;
const wrongAnswers = new Counter("wrong_answers");
const lateConnections = new Counter("late_connections");
const client = new grpc.Client();
client.load([plan.proto_dir], "router/v1/router.proto");
let connected = false;

export const options = {
  scenarios: {
    connect: {
      executor: "per-vu-iterations",
      exec: "connect",
      vus: plan.users,
      iterations: CALLS_BEFORE,
      maxDuration: `${CONNECT_S}s`,
      gracefulStop: "0s",
    },
    measured: {
      executor: "constant-arrival-rate",
      exec: "measured",
      startTime: `${CONNECT_S}s`,
      rate: plan.rate_per_s,
      timeUnit: "1s",
      duration: `${plan.seconds}s`,
      preAllocatedVUs: plan.users,
      maxVUs: plan.users,
      gracefulStop: "10s",
    },
  },
};

function call(request) {
  if (!connected) {
    client.connect(plan.address, { plaintext: true, timeout: "5s" });
    connected = true;
  }
  return client.invoke(plan.method, request, { timeout: "10s" });
}

export function connect() {
  call(requests[exec.vu.idInTest % requests.length]);
}

export function measured() {
  if (!connected) lateConnections.add(1);
  const response = call(requests[exec.scenario.iterationInTest % requests.length]);
  const [path, wanted] = plan.expect;
  let value = response.message;
  for (const name of path) value = value && value[name];
  if (wanted === null ? !value : value !== wanted) wrongAnswers.add(1);
}
