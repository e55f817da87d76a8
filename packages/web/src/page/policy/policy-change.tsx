import type { PolicySetting } from '@cllm/core'
import { useState } from 'preact/hooks'
import { Quiet, useTelling } from '../parts/form.js'
import { useServer } from '../server/server.js'

interface PolicyChangeProps {
  /** The route that sets it. */
  readonly path: string
  /** The policy that is to be set; undefined: none. */
  readonly wanted: PolicySetting | undefined
  /** Called once it is set, or is not to be. */
  readonly onEnd: () => void
}

/** Asks whether a policy is to be set on the running server, sets it, and takes that back. */
export function PolicyChange({ path, wanted, onEnd }: PolicyChangeProps) {
  const server = useServer()
  const [before, setBefore] = useState<PolicySetting>()
  const { told, attempt } = useTelling()
  const set = async ({ policy, options }: PolicySetting): Promise<string> => {
    onEnd()
    const { data } = await server.json<{ readonly data: PolicySetting }>(path)
    await server.json(path, { method: 'PUT', body: { policy, options } })
    setBefore({ policy: data.policy, options: data.options })
    return `${policy} is in force on the server.`
  }
  return (
    <>
      <div class="buttons">
        {wanted !== undefined && (
          <>
            <button type="button" onClick={() => attempt(async () => await set(wanted))}>
              Yes, use {wanted.policy} on this server
            </button>
            <Quiet onClick={onEnd}>Cancel</Quiet>
          </>
        )}
        {wanted === undefined && before !== undefined && (
          <Quiet onClick={() => attempt(async () => await set(before))}>
            Back to {before.policy}
          </Quiet>
        )}
      </div>
      <p role="status">{told}</p>
    </>
  )
}
