/** What is used of node-llama-cpp, loaded where it is needed; bundled, so that users do not install the rest of it. */
export {
  GgufInsights,
  Llama,
  LlamaLogLevel,
  type LlamaModel,
  readGgufFileInfo,
  resolveModelFile,
} from 'node-llama-cpp'
