// Makes gRPC calls with grpc-js, described as JSON, so that a test can see what Node sees.
//
//   node client.mjs PROTO_DIR HOST:PORT < calls.json
//
// Standard input is a JSON array of calls, made one after the other:
//   {"rpc": "Route", "request": {...}, "deadline_ms": 5000, "cancel_after": 1}
// `cancel_after` cancels a stream after that many messages. Standard output is a JSON array of
// results in the same order: {"messages": [...], "error": null | {"code", "message"}}; a unary
// call has one message or none.

import { readFileSync } from "node:fs";
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const [protoDir, address] = process.argv.slice(2);
const definition = loadSync("router/v1/router.proto", {
  includeDirs: [protoDir],
  keepCase: true,
  longs: String, // an int64 does not fit into a JavaScript number
  enums: String,
  defaults: true,
  oneofs: true,
});
const { RouterService } = loadPackageDefinition(definition).router.v1;
const client = new RouterService(address, credentials.createInsecure());

function call({ rpc, request, deadline_ms: deadlineMs, cancel_after: cancelAfter }) {
  const options = { deadline: Date.now() + deadlineMs };
  const messages = [];
  return new Promise((resolve) => {
    const end = (error) =>
      resolve({ messages, error: error && { code: error.code, message: error.details } });
    if (!client[rpc].responseStream) {
      client[rpc](request, options, (error, response) => {
        if (response) messages.push(response);
        end(error);
      });
      return;
    }
    const stream = client[rpc](request, options);
    stream.on("data", (message) => {
      messages.push(message);
      if (messages.length === cancelAfter) stream.cancel();
    });
    stream.on("error", end);
    stream.on("end", () => end(null));
  });
}

const results = [];
for (const description of JSON.parse(readFileSync(0, "utf8"))) results.push(await call(description));
client.close();
process.stdout.write(JSON.stringify(results));
