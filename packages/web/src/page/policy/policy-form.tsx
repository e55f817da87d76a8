import type { PolicySetting, SchedulerInfo } from '@cllm/core'
import { useState } from 'preact/hooks'
import { Buttons, Form, Problem, Quiet, useTelling } from '../parts/form.js'
import { ofModel, useAnswer, useServer } from '../server.js'
import { PolicyFields } from './policy-fields.js'

type Known = Pick<SchedulerInfo, 'policy' | 'options' | 'available'>

interface PolicyFormProps {
  readonly model: string
  /** The policy's name in the live view: somebody else may have changed it. */
  readonly inForce: string
}

/** Shows the policy in force, and can set another one. */
export function PolicyForm({ model, inForce }: PolicyFormProps) {
  /** The user's choice, and as JSON the policy that it replaces: a later policy in force voids the choice. */
  const [chosen, setChosen] = useState<{ readonly draft: PolicySetting; readonly of: string }>()
  const [wanted, setWanted] = useState<PolicySetting>()
  const path = ofModel('admin/scheduler', model)
  const { answer, problem } = useAnswer<{ readonly data: Known }>(path, { again: inForce })
  const known = answer?.data
  const now = JSON.stringify([known?.policy, known?.options])
  const draft = chosen?.of === now ? chosen.draft : known
  return (
    <Form class="card" aria-label="Policy" onSend={() => setWanted(draft)}>
      <h2>Policy</h2>
      <p>
        In force: <code>{inForce}</code>
      </p>
      <PolicyFields
        draft={draft ?? { policy: inForce, options: {} }}
        available={known?.available.map(({ name }) => name) ?? [inForce]}
        defaultsOf={(policy) => known?.available.find(({ name }) => name === policy)?.options ?? {}}
        onChange={(next) => {
          setChosen({ draft: next, of: now })
          setWanted(undefined)
        }}
      />
      {wanted === undefined && <Buttons send="Set the policy" disabled={draft === undefined} />}
      <PolicyChange path={path} wanted={wanted} onEnd={() => setWanted(undefined)} />
      <Problem text={problem} />
    </Form>
  )
}

interface PolicyChangeProps {
  /** The route that sets a policy. */
  readonly path: string
  /** The policy to set; undefined: none. */
  readonly wanted: PolicySetting | undefined
  /** Called once the policy is set, or the user declines. */
  readonly onEnd: () => void
}

/** Asks for a confirmation, sets a policy on the running server, and can undo that. */
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
