"""Questions for lists: every member is said by the one it is asked of, each in a week of its own."""

from deploy.lab.bench.quality.lists import FILE, read_lists


def test_each_member_of_a_list_is_said_in_a_session_of_its_own_by_the_one_whom_the_question_names() -> None:
    banks = list(read_lists(FILE))
    assert [len(bank.asked) for bank in banks] == [30, 30]
    for bank in banks:
        said = {one.id: one for one in bank.said}
        assert len(said) == len(bank.said)
        for asked in bank.asked:
            members = [said[one] for one in asked.evidence]
            assert len(members) >= 3
            assert len({one.session for one in members}) == len(members)
            assert len({one.text for one in members}) == len(members)
            [name] = {one.name for one in members}
            assert name is not None
            assert name in asked.text.split()


def test_two_runs_are_alike() -> None:
    assert list(read_lists(FILE)) == list(read_lists(FILE))
