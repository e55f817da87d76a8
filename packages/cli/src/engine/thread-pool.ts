/**
 * The size of libuv's thread pool in a process that computes with llama.cpp. On the CPU one thread is best: each
 * further one runs its decodes on cold caches (20 to 25 ms a token instead of 15 were measured). On a
 * GPU a pass may wait there while a file is read or a state is saved, and where node-llama-cpp's addon samples, it does
 * so on four.
 *
 * @param gpu - as `cllm serve --gpu` takes it
 */
export function threadPool(gpu: unknown): string {
  const isLikelyGpu = gpu === 'auto' || gpu === undefined ? process.platform === 'darwin' : true
  return gpu === 'off' || !isLikelyGpu ? '1' : '4'
}
