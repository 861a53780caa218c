// Serves a GGUF file on loopback as an OpenAI-compatible endpoint:
//
//     node serve.mjs MODEL.gguf        prints "port N" and answers /v1/models, /v1/chat/completions
//
// It is a small server of the kind many people run: it knows no tools and no schemas, so whatever
// the model writes comes back as text. Greedy, so the same prompt gives the same answer.
import http from 'node:http';
import {getLlama, LlamaCompletion} from 'node-llama-cpp';

const NAME = 'attune-test';
const CONTEXT = 1024;
const MOST_BYTES = 1 << 20;

const llama = await getLlama({build: 'never', gpu: false, logLevel: 'error'});
const model = await llama.loadModel({modelPath: process.argv[2]});
const context = await model.createContext({contextSize: CONTEXT, threads: 1});

// Contents are trimmed, as chat templates do.
function prompt(messages) {
  const turns = messages.map(
      ({role, content}) => `<|im_start|>${role}\n${content.trim()}<|im_end|>\n`);
  return turns.join('') + '<|im_start|>assistant\n';
}

async function complete(body) {
  const tokens = model.tokenize(prompt(body.messages), true);
  const most = Math.min(body.max_tokens ?? 512, CONTEXT - tokens.length - 1);
  if (most < 1) return {status: 400, code: 'exceed_context_size_error', tokens: tokens.length};
  const sequence = context.getSequence();
  try {
    let written = 0;
    const completion = new LlamaCompletion({contextSequence: sequence});
    const {response, metadata} = await completion.generateCompletionWithMeta(tokens, {
      maxTokens: most, temperature: 0, customStopTriggers: ['<|im_end|>'],
      onToken: (more) => { written += more.length; },
    });
    return {status: 200, tokens: tokens.length, written, text: response,
            finish: metadata.stopReason === 'maxTokens' ? 'length' : 'stop'};
  } finally {
    sequence.dispose();
  }
}

function send(response, status, value) {
  response.writeHead(status, {'content-type': 'application/json'});
  response.end(JSON.stringify(value));
}

let turn = Promise.resolve();  // one request at a time: there is one context

const server = http.createServer((request, response) => {
  const parts = [];
  let size = 0;
  request.on('data', (part) => {
    size += part.length;
    if (size > MOST_BYTES) request.destroy();
    parts.push(part);
  });
  request.on('end', () => {
    if (request.url === '/v1/models') {
      return send(response, 200, {object: 'list', data: [{id: NAME, object: 'model'}]});
    }
    let body;
    try {
      body = JSON.parse(Buffer.concat(parts).toString());
    } catch {
      return send(response, 400, {error: {message: 'not JSON', type: 'invalid_request_error'}});
    }
    turn = turn.then(async () => {
      try {
        const done = await complete(body);
        if (done.status !== 200) {
          return send(response, done.status, {error: {
            message: `${done.tokens} tokens`, type: done.code, code: done.status}});
        }
        send(response, 200, {
          id: `chatcmpl-${done.tokens}-${done.written}`, object: 'chat.completion', model: NAME,
          choices: [{index: 0, finish_reason: done.finish,
                     message: {role: 'assistant', content: done.text}}],
          usage: {prompt_tokens: done.tokens, completion_tokens: done.written,
                  total_tokens: done.tokens + done.written}});
      } catch (error) {
        send(response, 500, {error: {message: String(error), type: 'server_error'}});
      }
    });
  });
});
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
