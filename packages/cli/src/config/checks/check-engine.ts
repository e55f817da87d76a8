import { isQuantized, type KvCacheType } from '@cllm/backend-llamacpp/kv-cache-type'
import type { Setting } from '../layers/setting.js'

/** Problems with engine settings that are each valid but contradict one another. */
export const checkEngine = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const find = (name: string) => settings.get(`engine.${name}`)!
  const [slots, batchSize] = [find('slots'), find('batch_size')]
  const [cacheType, flashAttention] = [find('kv_cache_type'), find('flash_attention')]
  const problems: string[] = []
  if (Number(batchSize.value) < Number(slots.value)) {
    problems.push(
      `${batchSize.label}: expected at least one token for each of the ${String(slots.value)} slots ` +
        `(${slots.label}), got ${String(batchSize.value)}`,
    )
  }
  if (isQuantized(cacheType.value as KvCacheType) && flashAttention.value === false) {
    problems.push(
      `${flashAttention.label}: expected true or auto, got false: ${cacheType.label} ${String(cacheType.value)} needs flash attention`,
    )
  }
  return problems
}
