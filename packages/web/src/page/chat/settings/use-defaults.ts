import { useEffect, useState } from 'preact/hooks'
import { hasFeature } from '../../parts/switched-off.js'
import { useServer } from '../../server/server.js'

/** What the server samples with where a setting is empty, as `GET /props` has it. */
export type Defaults = Readonly<Record<string, number>>

/** What the server samples with by default, once that is wanted; nothing of a server that does not tell. */
export function useDefaults(model: string, isWanted: boolean): Defaults {
  const server = useServer()
  const [defaults, setDefaults] = useState<Defaults>({})
  useEffect(() => {
    if (!isWanted || !hasFeature('llama-server')) return
    type Props = { readonly default_generation_settings?: { readonly params?: Defaults } }
    server
      .json<Props>(`props${model === '' ? '' : `?model=${encodeURIComponent(model)}`}`)
      .then((props) => setDefaults(props.default_generation_settings?.params ?? {}))
      .catch(() => {})
  }, [server, model, isWanted])
  return defaults
}
