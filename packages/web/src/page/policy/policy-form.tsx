import type { PolicySetting, SchedulerInfo } from '@cllm/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Form, useTelling } from '../parts/form.js'
import { useServer } from '../server/server.js'
import { PolicyFields } from './policy-fields.js'

interface Answer {
  readonly data: Pick<SchedulerInfo, 'policy' | 'options' | 'available'>
}

/** Shows the policy in force; sets another one, once that was confirmed, and takes that back. */
export function PolicyForm({
  model,
  inForce,
}: {
  readonly model: string
  /** Its name as the live view has it, which somebody else may have changed. */
  readonly inForce: string
}): JSX.Element {
  const server = useServer()
  const [known, setKnown] = useState<Answer['data']>()
  const [draft, setDraft] = useState<PolicySetting>()
  const [before, setBefore] = useState<PolicySetting>()
  const [isAsked, setAsked] = useState(false)
  const { told, tell, attempt } = useTelling()
  const path = `admin/scheduler${model === '' ? '' : `?model=${encodeURIComponent(model)}`}`
  useEffect(() => {
    server.json<Answer>(path).then(
      ({ data }) => {
        setKnown(data)
        setDraft(({ policy, options } = data) =>
          policy === data.policy
            ? { policy, options }
            : { policy: data.policy, options: data.options },
        )
      },
      (error: Error) => tell(error.message),
    )
  }, [server, path, inForce])
  const set = async ({ policy, options }: PolicySetting): Promise<string> => {
    setAsked(false)
    const { data } = await server.json<{ readonly data: PolicySetting }>(path, {
      method: 'PUT',
      body: { policy, options },
    })
    setDraft(data)
    return `${policy} is in force from the next step on.`
  }
  return (
    <Form class="card" aria-label="Policy" onSend={() => setAsked(true)}>
      <h2>Policy</h2>
      <p>
        In force: <code>{inForce}</code>
      </p>
      {draft !== undefined && known !== undefined && (
        <PolicyFields
          draft={draft}
          available={known.available.map(({ name }) => name)}
          defaultsOf={(policy) =>
            known.available.find(({ name }) => name === policy)?.options ?? {}
          }
          onChange={(next) => {
            setDraft(next)
            setAsked(false)
          }}
        />
      )}
      <div class="buttons">
        {isAsked && draft !== undefined && known !== undefined ? (
          <>
            <button
              type="button"
              onClick={() => {
                setBefore({ policy: known.policy, options: known.options })
                attempt(async () => await set(draft))
              }}
            >
              Yes, use {draft.policy} on this server
            </button>
            <button type="button" class="quiet" onClick={() => setAsked(false)}>
              Cancel
            </button>
          </>
        ) : (
          <button type="submit">Set the policy</button>
        )}
        {before !== undefined && !isAsked && (
          <button
            type="button"
            class="quiet"
            onClick={() => {
              setBefore(undefined)
              attempt(async () => await set(before))
            }}
          >
            Back to {before.policy}
          </button>
        )}
      </div>
      <p role="status">{told}</p>
    </Form>
  )
}
